use super::*;

#[track_caller]
fn check(language: SourceLanguage, text: &str, expected: &[&str]) {
    let lexed = lex(language, text);
    assert_eq!(lexed.code().iter().map(|token| token.text).collect::<Vec<_>>(), expected, "{text}");
    assert!(lexed.is_whole, "{text}");
}

#[test]
fn code_is_told_from_comments_and_texts() {
    use SourceLanguage::*;
    check(Rust, "a /* x /* y */ z */ b // c", &["a", "b"]);
    check(
        Rust,
        "r#\"a\"b\"# 'x' '\\'' 'life b\"q\\\"\" r#fn 1..2 1.5e-3f64 0xffu8",
        &["r#\"a\"b\"#", "'x'", "'\\''", "'life", "b\"q\\\"\"", "r#fn", "1", ".", ".", "2", "1.5e-3f64", "0xffu8"],
    );
    check(Rust, "a == b != !c", &["a", "==", "b", "!=", "!", "c"]);
    check(Python, "x = '''a\n'b''' # c\nrb'\\'' f\"{a}\" b", &["x", "=", "'''a\n'b'''", "rb'\\''", "f\"{a}\"", "b"]);
    check(Go, "`a\\` + \"b\\\"\" /* c */ 'd'", &["`a\\`", "+", "\"b\\\"\"", "'d'"]);
    check(
        JavaScript,
        "a / b / c; x = /[/]\\//g; `q${ `r${1}` + '}' }s` // t",
        &["a", "/", "b", "/", "c", ";", "x", "=", "/[/]\\//g", ";", "`q${ `r${1}` + '}' }s`"],
    );
    check(TypeScript, "a?.b ?? c === d", &["a", "?.", "b", "??", "c", "===", "d"]);
}

#[test]
fn what_does_not_end_is_not_whole() {
    use SourceLanguage::*;
    for (language, text) in [(Rust, "a \"b"), (Rust, "/* /* */"), (Python, "'a\n"), (JavaScript, "`a${"), (Go, "`"), (Rust, "r#\"a\"")] {
        assert!(!lex(language, text).is_whole, "{text}");
    }
}

#[test]
fn lines_and_columns_are_kept_over_long_texts() {
    let lexed = lex(SourceLanguage::Python, "a = '''\n\n''' + b\n  c");
    let places: Vec<(u32, usize, bool)> = lexed.tokens.iter().map(|token| (token.line, token.column, token.is_first)).collect();
    assert_eq!(places, [(1, 0, true), (1, 2, false), (1, 4, false), (3, 4, false), (3, 6, false), (4, 2, true)]);
}
