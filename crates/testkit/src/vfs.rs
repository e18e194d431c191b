//! A disk that loses power: a SQLite VFS that keeps every write in memory until it is synced.
//!
//! It sits over the default VFS. What SQLite reads is what it wrote; what reaches the file is only what was synced. At
//! the chosen operation the power is cut: that operation and all later ones fail, and what was not synced is gone, or,
//! with `Loss::Torn`, reaches the disk in part and in any order, as it may on a real one. Locks and shared memory are the
//! default VFS's own. Creating and deleting files counts as durable at once; this disk is about contents.
#![expect(unsafe_code, reason = "a SQLite VFS is a table of C functions")]

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::ffi;

/// What becomes of writes that were not synced when the power goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// All of them are gone.
    All,
    /// Each of their sectors reaches the disk or not, by a coin with this seed.
    Torn(u64),
}

/// One disk. It lives as long as the process, because SQLite keeps its name.
#[derive(Clone, Copy)]
pub struct PowerVfs {
    disk: &'static Disk,
}

struct Disk {
    name: CString,
    real: *mut ffi::sqlite3_vfs,
    state: Mutex<State>,
}

// SAFETY: `real` is SQLite's default VFS, which is never unregistered and may be used from any thread.
unsafe impl Sync for Disk {}

struct State {
    operations: u64,
    cut_at: Option<u64>,
    is_cut: bool,
    files: HashMap<CString, Arc<Mutex<Image>>>,
}

/// A file as SQLite sees it, and what of that the disk does not have yet.
#[derive(Default)]
struct Image {
    bytes: Vec<u8>,
    unsynced: Vec<Change>,
}

enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Truncate { len: usize },
}

impl Image {
    fn apply(bytes: &mut Vec<u8>, change: &Change) {
        match change {
            Change::Write { at, bytes: new } => {
                if bytes.len() < at + new.len() {
                    bytes.resize(at + new.len(), 0);
                }
                bytes[*at..at + new.len()].copy_from_slice(new);
            }
            Change::Truncate { len } => bytes.truncate(*len),
        }
    }

    fn change(&mut self, change: Change) {
        Self::apply(&mut self.bytes, &change);
        self.unsynced.push(change);
    }
}

impl PowerVfs {
    /// Registers a disk whose power is cut at its nth operation (write, truncate, sync or delete; from 1), or never.
    pub fn register(cut_at: Option<u64>) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = CString::new(format!("power-{}", COUNT.fetch_add(1, Ordering::Relaxed))).unwrap_or_default();
        // SAFETY: a null name asks for the default VFS, which lives as long as the process.
        let real = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
        assert!(!real.is_null(), "SQLite has no default VFS");
        let state = State { operations: 0, cut_at, is_cut: false, files: HashMap::new() };
        let disk: &'static Disk = Box::leak(Box::new(Disk { name, real, state: Mutex::new(state) }));
        // SAFETY: `real` was just found; the struct is plain data.
        let mut vfs = unsafe { *real };
        vfs.szOsFile += c_int::try_from(size_of::<Handle>()).unwrap_or(c_int::MAX);
        vfs.pNext = ptr::null_mut();
        vfs.zName = disk.name.as_ptr();
        vfs.pAppData = ptr::from_ref(disk).cast_mut().cast();
        vfs.xOpen = Some(open);
        vfs.xDelete = Some(delete);
        // SAFETY: the VFS and all that it points to are leaked, so they outlive every connection.
        let registered = unsafe { ffi::sqlite3_vfs_register(Box::leak(Box::new(vfs)), 0) };
        assert_eq!(registered, ffi::SQLITE_OK, "the VFS was not registered");
        Self { disk }
    }

    /// The name to open connections with.
    pub fn name(&self) -> String {
        self.disk.name.to_string_lossy().into_owned()
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.disk.state().operations
    }

    pub fn is_cut(&self) -> bool {
        self.disk.state().is_cut
    }

    /// Puts on the disk what `loss` leaves of the unsynced writes. Only after all connections are closed.
    pub fn settle(&self, loss: Loss) -> std::io::Result<()> {
        let Loss::Torn(seed) = loss else { return Ok(()) };
        let mut coin = seed.wrapping_mul(2).wrapping_add(1);
        let state = self.disk.state();
        for (name, image) in &state.files {
            let Ok(path) = name.to_str() else { continue };
            let Ok(file) = OpenOptions::new().write(true).open(path) else { continue };
            for change in &lock(image).unsynced {
                let Change::Write { at, bytes } = change else { continue };
                for (index, sector) in bytes.chunks(512).enumerate() {
                    coin = coin.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    if coin >> 63 == 1 {
                        file.write_all_at(sector, (at + index * 512) as u64)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Disk {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Counts an operation that changes the disk; says whether there is still power for it.
    fn operate(&self) -> bool {
        let mut state = self.state();
        state.operations += 1;
        state.is_cut |= state.cut_at.is_some_and(|nth| state.operations >= nth);
        !state.is_cut
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What SQLite allocates for an open file: ours, and directly behind it the default VFS's.
#[repr(C)]
struct Handle {
    base: ffi::sqlite3_file,
    disk: &'static Disk,
    image: *const Mutex<Image>,
}

/// Our part of an open file.
///
/// # Safety
/// `file` was opened by `open` below and is not closed.
unsafe fn handle<'a>(file: *mut ffi::sqlite3_file) -> (&'static Disk, &'a Mutex<Image>) {
    // SAFETY: by the caller's promise it is an initialised Handle, and the image lives until `close`.
    unsafe { ((*file.cast::<Handle>()).disk, &*(*file.cast::<Handle>()).image) }
}

/// The default VFS's part of an open file.
///
/// # Safety
/// `file` points to `szOsFile` bytes as SQLite allocates them for this VFS.
unsafe fn real(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: szOsFile has room for both parts; Handle's size is a multiple of its alignment, that of a pointer.
    unsafe { file.cast::<Handle>().add(1).cast() }
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls this with our own VFS, whose pAppData is the leaked disk, and with room for both parts.
    unsafe {
        let disk: &'static Disk = &*(*vfs).pAppData.cast::<Disk>();
        (*file).pMethods = ptr::null();
        let Some(open) = (*disk.real).xOpen else { return ffi::SQLITE_CANTOPEN };
        if name.is_null() {
            // A temporary file survives nothing anyway; it needs no part of ours.
            return open(disk.real, name, file, flags, out);
        }
        if disk.state().is_cut {
            return ffi::SQLITE_IOERR;
        }
        let under = real(file);
        (*under).pMethods = ptr::null();
        let opened = open(disk.real, name, under, flags, out);
        if opened != ffi::SQLITE_OK {
            return opened;
        }
        let path = CStr::from_ptr(name).to_owned();
        let known = disk.state().files.get(&path).cloned();
        let image = match known {
            Some(image) => image,
            None => match load(under) {
                Ok(image) => disk.state().files.entry(path).or_insert_with(|| Arc::new(Mutex::new(image))).clone(),
                Err(code) => return code,
            },
        };
        file.cast::<Handle>().write(Handle { base: ffi::sqlite3_file { pMethods: &raw const METHODS }, disk, image: Arc::into_raw(image) });
        ffi::SQLITE_OK
    }
}

/// Reads what the file has through its own handle: closing another descriptor would drop the process's locks on it.
///
/// # Safety
/// `under` is a file opened by the default VFS.
unsafe fn load(under: *mut ffi::sqlite3_file) -> Result<Image, c_int> {
    // SAFETY: methods of an open file, called with room for what they write.
    unsafe {
        let methods = &*(*under).pMethods;
        let (Some(file_size), Some(read)) = (methods.xFileSize, methods.xRead) else { return Err(ffi::SQLITE_IOERR) };
        let mut size = 0;
        let sized = file_size(under, &raw mut size);
        let mut bytes = vec![0u8; usize::try_from(size).unwrap_or_default()];
        let len = c_int::try_from(bytes.len()).map_err(|_| ffi::SQLITE_IOERR)?;
        let done = if len == 0 { ffi::SQLITE_OK } else { read(under, bytes.as_mut_ptr().cast(), len, 0) };
        if sized != ffi::SQLITE_OK || done != ffi::SQLITE_OK {
            return Err(ffi::SQLITE_IOERR);
        }
        Ok(Image { bytes, unsynced: Vec::new() })
    }
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync_dir: c_int) -> c_int {
    // SAFETY: as in `open`; the name is a C string of SQLite's.
    unsafe {
        let disk = &*(*vfs).pAppData.cast::<Disk>();
        if !disk.operate() {
            return ffi::SQLITE_IOERR_DELETE;
        }
        disk.state().files.remove(CStr::from_ptr(name));
        match (*disk.real).xDelete {
            Some(delete) => delete(disk.real, name, sync_dir),
            None => ffi::SQLITE_IOERR_DELETE,
        }
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite closes a file once, so the image's count is given back once and the real part is still open.
    unsafe {
        drop(Arc::from_raw((*file.cast::<Handle>()).image));
        let under = real(file);
        (*(*under).pMethods).xClose.map_or(ffi::SQLITE_OK, |close| close(under))
    }
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, into: *mut c_void, len: c_int, at: ffi::sqlite3_int64) -> c_int {
    // SAFETY: an open file of ours, and `len` bytes to write into.
    let ((disk, image), into) =
        unsafe { (handle(file), std::slice::from_raw_parts_mut(into.cast::<u8>(), usize::try_from(len).unwrap_or_default())) };
    if disk.state().is_cut {
        return ffi::SQLITE_IOERR_READ;
    }
    let image = lock(image);
    let from = usize::try_from(at).unwrap_or_default().min(image.bytes.len());
    let there = (image.bytes.len() - from).min(into.len());
    into[..there].copy_from_slice(&image.bytes[from..from + there]);
    into[there..].fill(0);
    if there == into.len() { ffi::SQLITE_OK } else { ffi::SQLITE_IOERR_SHORT_READ }
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, from: *const c_void, len: c_int, at: ffi::sqlite3_int64) -> c_int {
    // SAFETY: an open file of ours, and `len` bytes to read from.
    let ((disk, image), bytes) =
        unsafe { (handle(file), std::slice::from_raw_parts(from.cast::<u8>(), usize::try_from(len).unwrap_or_default())) };
    if !disk.operate() {
        return ffi::SQLITE_IOERR_WRITE;
    }
    lock(image).change(Change::Write { at: usize::try_from(at).unwrap_or_default(), bytes: bytes.to_vec() });
    ffi::SQLITE_OK
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, len: ffi::sqlite3_int64) -> c_int {
    // SAFETY: an open file of ours.
    let (disk, image) = unsafe { handle(file) };
    if !disk.operate() {
        return ffi::SQLITE_IOERR_TRUNCATE;
    }
    lock(image).change(Change::Truncate { len: usize::try_from(len).unwrap_or_default() });
    ffi::SQLITE_OK
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: an open file of ours, whose real part is open too.
    unsafe {
        let (disk, image) = handle(file);
        if !disk.operate() {
            return ffi::SQLITE_IOERR_FSYNC;
        }
        let under = real(file);
        let methods = &*(*under).pMethods;
        let (Some(write), Some(truncate)) = (methods.xWrite, methods.xTruncate) else { return ffi::SQLITE_IOERR_FSYNC };
        for change in lock(image).unsynced.drain(..) {
            let done = match change {
                Change::Write { at, bytes } => {
                    write(under, bytes.as_ptr().cast(), c_int::try_from(bytes.len()).unwrap_or_default(), at as ffi::sqlite3_int64)
                }
                Change::Truncate { len } => truncate(under, len as ffi::sqlite3_int64),
            };
            if done != ffi::SQLITE_OK {
                return done;
            }
        }
        ffi::SQLITE_OK
    }
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, size: *mut ffi::sqlite3_int64) -> c_int {
    // SAFETY: an open file of ours, and a place for the answer.
    unsafe {
        *size = lock(handle(file).1).bytes.len() as ffi::sqlite3_int64;
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_control(file: *mut ffi::sqlite3_file, op: c_int, arg: *mut c_void) -> c_int {
    // These two would change the real file behind the image's back.
    if matches!(op, ffi::SQLITE_FCNTL_SIZE_HINT | ffi::SQLITE_FCNTL_CHUNK_SIZE) {
        return ffi::SQLITE_NOTFOUND;
    }
    // SAFETY: passed on as it came, with the real part of an open file.
    unsafe {
        let under = real(file);
        (*(*under).pMethods).xFileControl.map_or(ffi::SQLITE_NOTFOUND, |control| control(under, op, arg))
    }
}

/// Methods that the default VFS answers for its own part of the file.
macro_rules! pass_on {
    ($($name:ident = $method:ident($($arg:ident: $type:ty),*) -> $result:ty, or $other:expr;)*) => {$(
        unsafe extern "C" fn $name(file: *mut ffi::sqlite3_file $(, $arg: $type)*) -> $result {
            // SAFETY: passed on as it came, with the real part of an open file.
            unsafe {
                let under = real(file);
                (*(*under).pMethods).$method.map_or($other, |method| method(under $(, $arg)*))
            }
        }
    )*};
}

pass_on! {
    lock_file = xLock(level: c_int) -> c_int, or ffi::SQLITE_IOERR_LOCK;
    unlock_file = xUnlock(level: c_int) -> c_int, or ffi::SQLITE_IOERR_UNLOCK;
    check_reserved = xCheckReservedLock(out: *mut c_int) -> c_int, or ffi::SQLITE_IOERR_LOCK;
    sector_size = xSectorSize() -> c_int, or 4096;
    shm_map = xShmMap(page: c_int, size: c_int, extend: c_int, out: *mut *mut c_void) -> c_int, or ffi::SQLITE_IOERR_SHMMAP;
    shm_lock = xShmLock(offset: c_int, n: c_int, flags: c_int) -> c_int, or ffi::SQLITE_IOERR_SHMLOCK;
    shm_barrier = xShmBarrier() -> (), or ();
    shm_unmap = xShmUnmap(delete: c_int) -> c_int, or ffi::SQLITE_OK;
}

/// No promise about atomic or ordered writes, so SQLite relies on syncs alone.
unsafe extern "C" fn characteristics(_file: *mut ffi::sqlite3_file) -> c_int {
    0
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock_file),
    xUnlock: Some(unlock_file),
    xCheckReservedLock: Some(check_reserved),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};
