//! Messages between processes.

use super::measure::{ago, bytes, plural};
use super::{Line, Page, Tone, table};
use wire::base64;
use wire::method::message::{DeadLetterView, MessageDeadResult, MessageListResult, MessageView};

/// How much of a body is shown.
const SHOWN_CHARS: usize = 400;

pub fn list(result: &MessageListResult, now_ms: i64) -> Page {
    if result.messages.is_empty() {
        return Page(vec![Line::new().faint("no message waits")]);
    }
    result.messages.iter().flat_map(|view| one(view, now_ms).0).collect()
}

/// One message: who sent what, and the body where it is text.
pub fn one(view: &MessageView, now_ms: i64) -> Page {
    let from = if view.from_name.is_empty() { view.from.to_string() } else { view.from_name.clone() };
    let mut head = Line::new().name(view.message.to_string()).strong(format!("  {}", view.kind)).plain(format!("  from {from}"));
    head = head.faint(format!("  {}, {}, {}", view.relation.as_str(), view.priority.as_str(), ago(view.sent_ms, now_ms)));
    if let Some(reply_to) = &view.reply_to {
        head = head.faint(format!("  answers {reply_to}"));
    }
    let mut page = Page(vec![head]);
    match base64::decode(&view.body).map(String::from_utf8) {
        Some(Ok(text)) if !text.is_empty() => {
            let shown: String = text.chars().take(SHOWN_CHARS).collect();
            page.block("  ", Tone::Plain, &shown);
            if shown.len() < text.len() {
                page.push(Line::new().faint(format!("  … {} in all; --json has it", bytes(view.bytes))));
            }
        }
        Some(Ok(_)) => {}
        Some(Err(_)) | None => page.push(Line::new().faint(format!("  {}, no text; --json has it", bytes(view.bytes)))),
    }
    page
}

pub fn dead(result: &MessageDeadResult, now_ms: i64) -> Page {
    if result.letters.is_empty() {
        return Page(vec![Line::new().faint("every message reached somebody")]);
    }
    let row = |letter: &DeadLetterView| {
        vec![
            Line::new().name(letter.message.to_string()),
            Line::new().bad(letter.why.as_str()),
            Line::new().plain(&letter.kind),
            Line::new().plain(format!("{} to {}", letter.from_name, letter.to)),
            Line::new().faint(ago(letter.at_ms, now_ms)),
        ]
    };
    let mut page = table(result.letters.iter().map(row).collect());
    page.push(Line::new().faint(format!("{} reached nobody", plural(result.letters.len() as u64, "message"))));
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{DropReason, MessageId, MessagePriority, Pid, SenderRelation};

    fn view(body: &[u8]) -> MessageView {
        MessageView {
            message: MessageId(3),
            from: Pid(7),
            from_name: "price".into(),
            relation: SenderRelation::Child,
            kind: "result".into(),
            priority: MessagePriority::High,
            sent_ms: 0,
            deadline_ms: None,
            requires_ack: false,
            reply_to: Some("msg-1".into()),
            bytes: body.len() as u64,
            body: base64::encode(body),
        }
    }

    #[test]
    fn a_message_shows_its_text_and_hides_its_bytes() {
        let text = one(&view(b"42 euro\x1b[2J\n"), 5_000).render(false, None);
        assert_eq!(text, "msg-3  result  from price  child, high, 5s ago  answers msg-1\n  42 euro\\x1b[2J\n");
        assert!(one(&view(&[0xff, 0]), 0).render(false, None).ends_with("  2 B, no text; --json has it\n"));
        assert!(one(&view(&[b'x'; 900]), 0).render(false, None).ends_with("  … 900 B in all; --json has it\n"));
        assert_eq!(list(&MessageListResult { messages: vec![] }, 0).render(false, None), "no message waits\n");
    }

    #[test]
    fn a_dead_letter_says_why() {
        let letter = DeadLetterView {
            message: MessageId(4),
            from: Pid(7),
            from_name: "price".into(),
            to: "process 9".into(),
            kind: "ask".into(),
            why: DropReason::Expired,
            at_ms: 0,
        };
        let text = dead(&MessageDeadResult { letters: vec![letter] }, 2_000).render(false, None);
        assert_eq!(text, "msg-4  expired  ask  price to process 9  2s ago\n1 message reached nobody\n");
    }
}
