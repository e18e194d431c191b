//! What readers of a talk see, and what is kept of it.

use super::*;

fn session(rows: u16, columns: u16) -> Arc<TalkSession> {
    Arc::new(TalkSession::new(Pid(3), Window { rows, columns }))
}

fn screen_of(codes: &[u8], rows: u16, columns: u16) -> Parser {
    let (rows, columns) = cells(Window { rows, columns });
    let mut parser = Parser::new(rows, columns, 0);
    parser.process(codes);
    parser
}

#[tokio::test]
async fn who_comes_in_the_middle_sees_the_present_screen_and_what_follows() {
    let session = session(5, 20);
    // A character is split between two pieces.
    session.put("\x1b[?1049h\x1b[?2004h\x1b[2;3Hgr\u{fc}".as_bytes().split_last().unwrap().1);
    session.put(&"\u{fc}\x1b[31m!".as_bytes()[1..]);
    let mut watcher = TalkPosition::watcher();
    let mut seen = screen_of(&session.next(&mut watcher).await.unwrap(), 5, 20);
    let screen = seen.screen();
    assert_eq!(screen.contents(), "\n  gr\u{fc}!");
    assert_eq!((screen.alternate_screen(), screen.bracketed_paste(), screen.cursor_position()), (true, true, (1, 6)));
    session.put(b"?");
    seen.process(&session.next(&mut watcher).await.unwrap());
    assert_eq!(seen.screen().contents(), "\n  gr\u{fc}!?");
    assert_eq!(seen.screen().cell(1, 6).unwrap().fgcolor(), vt100::Color::Idx(1), "in the colour that was set before it came");
    session.end();
    assert_eq!(session.next(&mut watcher).await, None);
}

#[tokio::test]
async fn a_slow_talker_is_waited_for_and_a_slow_watcher_is_not() {
    let session = session(5, 20);
    let (mut talker, mut watcher) = (TalkPosition::talker(), TalkPosition::watcher());
    session.put(b"first");
    assert!(session.next(&mut watcher).await.is_some());
    let wrote = Arc::new(std::sync::atomic::AtomicUsize::new(5));
    let (writer, count) = (session.clone(), wrote.clone());
    let writing = std::thread::spawn(move || {
        for _ in 0..300 {
            writer.put(&[b'x'; 8 << 10]);
            count.fetch_add(8 << 10, std::sync::atomic::Ordering::SeqCst);
        }
        writer.end();
    });
    // As far ahead as it can get: without anybody to wait for it would come to its end here, and the first bytes were lost.
    let patience = std::time::Instant::now() + std::time::Duration::from_millis(700);
    while !writing.is_finished() && std::time::Instant::now() < patience {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let mut heard = 0;
    while let Some(piece) = session.next(&mut talker).await {
        heard += piece.len();
        let ahead = wrote.load(std::sync::atomic::Ordering::SeqCst).saturating_sub(heard);
        assert!(ahead <= RING_BYTES, "{ahead} bytes wait");
    }
    writing.join().unwrap();
    assert_eq!(heard, 5 + 300 * (8 << 10), "not a byte was missed");
    let caught_up = session.next(&mut watcher).await.unwrap();
    assert!(caught_up.len() < 4 << 10 && caught_up.starts_with(b"\x1b"), "the screen, and not what was missed");
    assert_eq!(session.next(&mut watcher).await, None);
}

#[tokio::test]
async fn the_cursor_is_left_below_what_was_drawn() {
    for (drawn, code) in [
        (&b"one\r\n> \r\nthree\x1b[1A"[..], Some(&b"\x1b[1B"[..])),
        (b"one\r\ntwo\r\n", None),
        (b"\x1b[?1049h\x1b[2J\x1b[5;1Hfull\x1b[H", None),
    ] {
        let session = session(5, 20);
        session.put(drawn);
        session.end();
        let mut talker = TalkPosition::talker();
        let mut heard = session.next(&mut talker).await.unwrap();
        while let Some(more) = session.next(&mut talker).await {
            heard.extend(more);
        }
        assert_eq!(heard.strip_prefix(drawn).filter(|rest| !rest.is_empty()), code);
        assert_eq!(session.archive().raw, drawn, "what is kept is what was drawn");
    }
}

#[test]
fn what_is_kept_reads_as_lines() {
    let session = session(3, 10);
    session.put(b"one\r\ntwo two two two\r\nthree\r\n\x1b[1mfour\x1b[0m\r\nfive");
    let archive = session.archive();
    assert_eq!(archive.text, "one\ntwo two two two\nthree\nfour\nfive");
    assert_eq!((archive.raw.len() as u64, archive.dropped), (archive.bytes, 0));
    let full = self::session(3, 20);
    full.put(b"shell\x1b[?1049h\x1b[2J\x1b[Hfull screen");
    full.put(b"\x1b[?1049l");
    assert_eq!(full.archive().text, "full screen\n\nshell");
    let cleared = self::session(3, 20);
    cleared.put(b"shell\x1b[?1049h\x1b[2J\x1b[Hfull screen");
    cleared.put(b"\x1b[H\x1b[J");
    cleared.put(b"\x1b[?1049l");
    assert_eq!(cleared.archive().text, "full screen\n\nshell", "cleared before it is given back");
}

#[test]
fn an_archive_is_a_beginning() {
    let session = session(3, 10);
    session.leave(true);
    (0..17).for_each(|_| session.put(&vec![b'x'; 1 << 20]));
    let archive = session.archive();
    assert_eq!((archive.raw.len(), archive.dropped, archive.bytes), (16 << 20, 1 << 20, 17 << 20));
}
