//! What processes of one host share by name and not by place: memory, a queue of messages, files in memory, a datagram port.

use std::ffi::CString;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;

use super::scene::SECRET;

/// Where everybody may leave files.
const FOLDERS: &[&str] = &["/dev/shm", "/tmp", "/var/tmp"];

pub struct Shared {
    name: String,
    key: i32,
    segment: i32,
    datagrams: UdpSocket,
}

impl Shared {
    /// `number` tells scenes of one process apart; `owner` is who takes it all away again.
    #[expect(unsafe_code, reason = "the C library alone knows these")]
    pub fn new(name: &str, number: u32, owner: u32) -> Shared {
        let key = (std::process::id() as i32) << 8 | (number & 0xff) as i32;
        let queue = CString::new(format!("/{name}")).unwrap();
        // SAFETY: the segment is a page, which the secret and its end fit in; the name ends, the attributes are whole.
        let segment = unsafe {
            let segment = libc::shmget(key, 4096, libc::IPC_CREAT | libc::IPC_EXCL | 0o666);
            let memory = libc::shmat(segment, std::ptr::null(), 0).cast::<u8>();
            assert!(segment >= 0 && memory as isize != -1, "{}", std::io::Error::last_os_error());
            memory.copy_from_nonoverlapping(SECRET.as_ptr(), SECRET.len());
            libc::shmdt(memory.cast());
            let mut held: libc::shmid_ds = std::mem::zeroed();
            libc::shmctl(segment, libc::IPC_STAT, &raw mut held);
            held.shm_perm.uid = owner;
            libc::shmctl(segment, libc::IPC_SET, &raw mut held);
            let mut shape: libc::mq_attr = std::mem::zeroed();
            (shape.mq_maxmsg, shape.mq_msgsize) = (1, 64);
            let queue =
                libc::mq_open(queue.as_ptr(), libc::O_CREAT | libc::O_EXCL | libc::O_RDWR | libc::O_NONBLOCK, 0o666, &raw const shape);
            assert!(queue >= 0, "{}", std::io::Error::last_os_error());
            libc::fchmod(queue, 0o666);
            libc::fchown(queue, owner, owner);
            libc::mq_send(queue, SECRET.as_ptr().cast(), SECRET.len(), 0);
            libc::mq_close(queue);
            segment
        };
        let shared = Shared { name: name.to_owned(), key, segment, datagrams: UdpSocket::bind("127.0.0.1:0").unwrap() };
        for file in shared.files() {
            fs::write(&file, SECRET).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
            chown(&file, Some(owner), Some(owner)).unwrap();
        }
        shared
    }

    fn files(&self) -> impl Iterator<Item = PathBuf> {
        FOLDERS.iter().map(|folder| PathBuf::from(folder).join(&self.name))
    }

    pub fn env(&self) -> [(&'static str, String); 3] {
        let port = self.datagrams.local_addr().unwrap().port();
        [("SHARED", self.name.clone()), ("SEGMENT", self.key.to_string()), ("DATAGRAMS", port.to_string())]
    }

    pub fn harm(&self) -> Vec<String> {
        self.datagrams.set_nonblocking(true).unwrap();
        let heard = self.datagrams.recv_from(&mut [0_u8; 64]).map(|(_, from)| format!("a datagram came from {from}"));
        let changed = self.files().filter(|file| fs::read_to_string(file).is_ok_and(|held| held != SECRET));
        heard.into_iter().chain(changed.map(|file| format!("{} has changed", file.display()))).collect()
    }
}

impl Drop for Shared {
    #[expect(unsafe_code, reason = "the C library alone knows these")]
    fn drop(&mut self) {
        let queue = CString::new(format!("/{}", self.name)).unwrap();
        // SAFETY: the name ends; removing takes no memory.
        unsafe {
            libc::shmctl(self.segment, libc::IPC_RMID, std::ptr::null_mut());
            libc::mq_unlink(queue.as_ptr());
        }
        self.files().for_each(|file| drop(fs::remove_file(file)));
    }
}
