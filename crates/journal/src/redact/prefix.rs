//! Keys that are known by how they begin.

use std::ops::Range;

/// Which characters a key goes on with.
#[derive(Clone, Copy)]
enum Body {
    /// Letters, digits, `_` and `-`.
    Word,
    /// Letters and digits alone: names of programs have `_` soon.
    Plain,
    /// As `Word`, and dots.
    Dotted,
    /// As `Word`, and what base64 in an address has.
    Encoded,
}

use Body::{Dotted, Encoded, Plain, Word};

/// How keys begin, what follows, how much of it there must be, and how much is enough where a digit is among it.
const PREFIXES: [(&str, Body, usize, usize); 114] = [
    ("sk-", Word, 16, 8),
    ("ghp_", Word, 16, 8),
    ("gho_", Word, 16, 8),
    ("ghs_", Word, 16, 8),
    ("ghu_", Word, 16, 8),
    ("ghr_", Word, 16, 8),
    ("github_pat_", Word, 16, 8),
    ("glpat-", Word, 16, 8),
    ("glrt-", Word, 16, 12),
    ("gldt-", Word, 16, 12),
    ("glptt-", Word, 16, 12),
    ("glcbt-", Word, 16, 12),
    ("glagent-", Word, 20, 16),
    ("AKIA", Plain, 12, 12),
    ("ASIA", Plain, 16, 16),
    ("AIza", Word, 30, 30),
    ("ya29.", Word, 20, 20),
    ("GOCSPX-", Word, 20, 16),
    ("xoxb-", Word, 10, 8),
    ("xoxa-", Word, 10, 8),
    ("xoxp-", Word, 10, 8),
    ("xoxr-", Word, 10, 8),
    ("xoxs-", Word, 10, 8),
    ("xoxe-", Word, 10, 8),
    ("xoxe.xox", Word, 10, 8),
    ("xapp-", Word, 16, 10),
    ("npm_", Plain, 16, 8),
    ("pypi-", Word, 30, 20),
    ("hf_", Plain, 30, 24),
    ("rubygems_", Plain, 32, 32),
    ("dckr_pat_", Word, 16, 12),
    ("sk_live_", Plain, 16, 10),
    ("sk_test_", Plain, 16, 10),
    ("rk_live_", Plain, 16, 10),
    ("rk_test_", Plain, 16, 10),
    ("whsec_", Plain, 20, 16),
    ("sq0atp-", Word, 16, 12),
    ("sq0csp-", Word, 16, 12),
    ("shpat_", Plain, 24, 16),
    ("shpss_", Plain, 24, 16),
    ("SG.", Dotted, 30, 20),
    ("dop_v1_", Plain, 32, 24),
    ("doo_v1_", Plain, 32, 24),
    ("dapi", Plain, 32, 32),
    ("gsk_", Plain, 32, 24),
    ("xai-", Plain, 32, 24),
    ("pplx-", Plain, 32, 24),
    ("nvapi-", Word, 32, 24),
    ("r8_", Plain, 32, 24),
    ("glsa_", Word, 24, 20),
    ("hvs.", Word, 20, 16),
    ("hvb.", Word, 20, 16),
    ("tskey-", Word, 16, 12),
    ("lin_api_", Plain, 24, 20),
    ("ntn_", Plain, 30, 30),
    ("figd_", Word, 24, 20),
    ("sntrys_", Word, 24, 20),
    ("PMAK-", Word, 24, 20),
    ("NRAK-", Plain, 20, 20),
    ("GLSVRS-", Word, 20, 16),
    ("AGE-SECRET-KEY-1", Plain, 30, 30),
    ("EAACEdEose0cBA", Plain, 8, 8),
    ("xoxc-", Word, 10, 8),
    ("xoxd-", Encoded, 10, 8),
    ("xwfp-", Word, 16, 10),
    ("glsoat-", Word, 16, 12),
    ("glimt-", Word, 16, 12),
    ("glft-", Word, 16, 12),
    ("gloas-", Word, 20, 16),
    ("ABIA", Plain, 16, 16),
    ("ACCA", Plain, 16, 16),
    ("AQ.Ab", Word, 40, 40),
    ("sess-", Plain, 32, 32),
    ("csk-", Plain, 40, 32),
    ("pcsk_", Word, 30, 24),
    ("lsv2_pt_", Word, 32, 24),
    ("lsv2_sk_", Word, 32, 24),
    ("tvly-", Word, 24, 20),
    ("jina_", Word, 40, 32),
    ("e2b_", Plain, 40, 32),
    ("sbp_", Plain, 40, 32),
    ("sb_secret_", Word, 20, 16),
    ("pul-", Plain, 40, 40),
    ("phx_", Plain, 32, 24),
    ("ATATT3x", Word, 40, 24),
    ("ATCTT3x", Word, 40, 24),
    ("dp.pt.", Plain, 40, 32),
    ("dp.st.", Dotted, 40, 32),
    ("CFPAT-", Word, 32, 24),
    ("xkeysib-", Word, 40, 40),
    ("shpca_", Plain, 24, 16),
    ("shppa_", Plain, 24, 16),
    ("sgp_", Word, 40, 32),
    ("fo1_", Word, 40, 32),
    ("oy2", Plain, 43, 43),
    ("ops_eyJ", Word, 40, 40),
    ("1//0", Word, 40, 30),
    ("fw_", Plain, 22, 20),
    ("nfp_", Plain, 30, 30),
    ("pscale_tkn_", Word, 30, 24),
    ("pscale_pw_", Word, 30, 24),
    ("rnd_", Plain, 24, 20),
    ("sntryu_", Plain, 40, 32),
    ("glc_", Word, 40, 32),
    ("bkua_", Plain, 32, 24),
    ("CCIPAT_", Word, 32, 24),
    ("AKCp", Plain, 60, 60),
    ("sl.", Word, 60, 60),
    ("EZAK", Plain, 50, 50),
    ("FLWSECK", Word, 20, 16),
    ("pnu_", Plain, 30, 24),
    ("rdme_", Plain, 40, 32),
    ("tfp_", Word, 40, 32),
    ("AQVN", Word, 35, 35),
];

pub(super) fn all() -> impl Iterator<Item = &'static str> {
    PREFIXES.iter().map(|(prefix, ..)| *prefix)
}

/// The key that begins here, if enough of it follows and it does not begin in the middle of a word.
pub(super) fn key(text: &str, start: usize, index: usize) -> Option<Range<usize>> {
    let (prefix, body, min, min_with_digit) = PREFIXES[index];
    let bytes = text.as_bytes();
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    // The letter of an escape such as `\n` is no part of a word.
    let is_escape = |at: usize| at > 1 && matches!(bytes[at - 1], b'n' | b'r' | b't' | b'b' | b'f') && bytes[at - 2] == b'\\';
    let starts_word = start == 0 || !is_word(bytes[start - 1]) || is_escape(start);
    if !text[start..].starts_with(prefix) {
        return None;
    }
    let from = start + prefix.len();
    let goes_on = |byte: &&u8| match body {
        Word => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
        Plain => byte.is_ascii_alphanumeric(),
        Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
        Encoded => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'%' | b'+' | b'/' | b'='),
    };
    let end = from + bytes[from..].iter().take_while(goes_on).count();
    let length = end - from;
    // A shorter one counts if it does not look like words with dashes.
    let has = |test: fn(&u8) -> bool| bytes[from..end].iter().any(test);
    let is_key = length >= min || length >= min_with_digit && has(u8::is_ascii_digit);
    let is_word_of_names = prefix == "sk-" && !VENDORS.iter().any(|vendor| text[from..].starts_with(vendor)) && is_names(&text[from..end]);
    // In the middle of a word only what no word has.
    let is_sure = prefix.len() > 3 && length >= 20 && has(u8::is_ascii_digit) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    (is_key && !is_word_of_names && (starts_word || is_sure)).then_some(start..end)
}

/// What follows `sk-` in keys of those who put a word there first.
const VENDORS: [&str; 8] = ["ant-", "proj-", "or-", "svcacct-", "admin-", "live-", "test-", "lf-"];

/// Names of styles and packages (`sk-container-id-1`): words and small numbers, none of which looks like a key.
fn is_names(body: &str) -> bool {
    let is_random = |part: &str| {
        let has = |test: fn(&u8) -> bool| part.bytes().any(|byte| test(&byte));
        part.len() >= 16 || part.len() >= 8 && has(u8::is_ascii_digit)
    };
    !body.split(['-', '_']).any(is_random)
}

/// A Telegram bot's token: a number, a colon and 35 letters.
pub(super) fn bot_token(text: &str, colon: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let number = bytes[..colon].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let letters = bytes[colon + 1..].iter().take_while(|byte| is_letter(byte)).count();
    ((8..=12).contains(&number) && letters == 35).then_some(colon - number..colon + 1 + letters)
}

/// A JSON web token: three or five parts of base64 with dots between, of which the first is a JSON object.
pub(super) fn web_token(text: &str, start: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if start > 0 && is_digit(&bytes[start - 1]) || !text[start..].starts_with("eyJ") {
        return None;
    }
    let part = |from: usize| bytes[from..].iter().take_while(|byte| is_digit(byte)).count();
    let (mut at, mut parts) = (start, Vec::new());
    loop {
        let length = part(at);
        parts.push(length);
        at += length;
        if bytes.get(at) != Some(&b'.') || parts.len() == 5 {
            break;
        }
        at += 1;
    }
    // Without a signature the last part is empty; that is still somebody's claims.
    let is_token = parts.len() >= 3 && parts[0] >= 10 && parts[1] >= 8 || parts.len() == 2 && parts[0] >= 16 && parts[1] >= 16;
    is_token.then_some(start..at)
}
