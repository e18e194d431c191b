//! What goes in and what comes out. Where the text alone does not tell, the engine runs it.

use proptest::prelude::*;
use rquickjs::{Context, Runtime};

use super::strip;
use crate::limits::FRAME_BYTES;
use typescript::NESTING_MAX as NESTING;

/// Cases apart by `====`: a source, `----`, and what becomes of it. `·` is a blank where something else stood; an error is `! ` with its
/// place. `SKEP_UPDATE=1` rewrites the lower halves; read the diff before you commit it.
const CORPUS: &str = include_str!("../../../corpus/strip.txt");

fn cases() -> impl Iterator<Item = (&'static str, &'static str)> {
    CORPUS.trim_end().split("\n====\n").filter_map(|case| case.split_once("\n----\n"))
}

/// What becomes of a source, as the corpus shows it.
fn shown(source: &str) -> String {
    match strip("a.ts", source) {
        Err(flaw) => format!("! {}", flaw.to_string().trim_start_matches("a.ts:")),
        Ok(code) => {
            let was = |at: usize| source.as_bytes().get(at).copied();
            let dot = |(at, sign): (usize, char)| match sign {
                ' ' if was(at) != Some(b' ') => '·',
                '\u{a0}' | '\u{2003}' => '·',
                sign => sign,
            };
            code.char_indices().map(dot).collect()
        }
    }
}

#[test]
fn what_becomes_of_each_source() {
    if std::env::var_os("SKEP_UPDATE").is_some() {
        let all: Vec<String> = cases().map(|(source, _)| format!("{source}\n----\n{}", shown(source))).collect();
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/strip.txt"), all.join("\n====\n") + "\n").unwrap();
        return;
    }
    assert!(cases().count() > 200, "the corpus is gone");
    for (source, wanted) in cases() {
        assert_eq!(shown(source), wanted, "\n{source}");
        keeps_its_places(source);
    }
}

/// The laws: as many bytes, the same line ends, and nothing left to strip. Columns stay, in UTF-16: there are more of them only where a
/// semicolon or a parenthesis had to take the place of a sign of several bytes.
#[track_caller]
fn keeps_its_places(source: &str) {
    let Ok(code) = strip("a.ts", source) else { return };
    let line_ends = |text: &str| text.match_indices(['\n', '\r', '\u{2028}', '\u{2029}']).map(|(at, _)| at).collect::<Vec<_>>();
    assert_eq!(code.len(), source.len(), "{source:?}\n{code:?}");
    assert!(code.encode_utf16().count() >= source.encode_utf16().count(), "{source:?}\n{code:?}");
    assert!(!source.is_ascii() || code.is_ascii(), "{source:?}\n{code:?}");
    assert_eq!(line_ends(&code), line_ends(source), "{source:?}\n{code:?}");
    assert_eq!(strip("a.ts", &code).as_ref(), Ok(&code), "{source:?}");
}

/// Runs a script that ends with a value.
fn run(source: &str) -> String {
    let code = strip("a.ts", source).unwrap_or_else(|flaw| panic!("{flaw}\n{source}"));
    let runtime = Runtime::new().unwrap();
    let context = Context::full(&runtime).unwrap();
    context.with(|ctx| match ctx.eval::<rquickjs::Value<'_>, _>(code.as_str()) {
        Ok(value) => ctx.json_stringify(value).unwrap().unwrap().to_string().unwrap(),
        Err(_) => panic!("{:?}\n{code}", ctx.catch()),
    })
}

#[test]
fn what_is_left_does_what_was_meant() {
    let check = |source: &str, wanted: &str| assert_eq!(run(source), wanted, "{source}");
    // A line that begins with a bracket is a statement of its own after a type, and goes on without one.
    check("let b = () => 1\nlet a: number = 1\nlet c = b as () => number\n;[a, c()]", "[1,1]");
    check("const f = (x: number) => x\nlet a = f as any\n(1)\ntypeof a", "\"function\"");
    check("const f = (x: number) => x\nlet a = f\n(1)\ntypeof a", "\"number\"");
    check("let a = [5], b = a as number[]\n[0]\nb", "[5]");
    check("let a: any, r = 0\nlet b: number\n/2/g.test('2') && r++\n;[typeof b, r]", "[\"undefined\",1]");
    check("let n = 0\nlet a = 1 as number\n++n\n;[a, n]", "[1,1]");
    check("let a = 1\ntype B = number\n[2, 3].forEach((x: B) => { a += x })\na", "6");
    // Members of classes.
    check("class A { a = 1\n public ['b'] = 2 }\nnew A()", "{\"a\":1,\"b\":2}");
    check("class A { get: number = 1\n x() { return 2 } }\n[new A().get, new A().x()]", "[1,2]");
    check("class A { get: any\n x() { return 2 } }\nnew A().x()", "2");
    check("abstract class A { a = 1\n abstract b(): void\n ['c'] = 2 }\nclass B extends A { b() {} }\nnew B()", "{\"a\":1,\"c\":2}");
    check("class A { declare a: number; private b?: number; readonly c = 3 as const }\nObject.keys(new A())", "[\"b\",\"c\"]");
    check("class A<T> { #a: T; constructor(a: T) { this.#a = a } get a(): T { return this.#a } }\nnew A<number>(4).a", "4");
    check("class A { a(b: string): string\n a(b: number): number\n a(b: any) { return b } }\nnew A().a(1)", "1");
    // Arrow functions whose types span lines.
    check("const f = (a: number):\n  number => a + 1\nf(1)", "2");
    check("const f = (a: number): {\n  b: number\n} => ({ b: a })\nf(1)", "{\"b\":1}");
    check("function f() { return <\n  T\n>(a: T) => a }\nf()(3)", "3");
    check("function f() { return <T>\n(a: T) => a }\nf()(3)", "3");
    check("const f = async <\n  T\n>(a: T) => a\ntypeof f(1).then", "\"function\"");
    check("const f = (a):\n  ä => a\nf(2)", "2");
    // Expressions.
    check("let a: any = { b: { c: 1 } }\na!.b!.c! + (a as any).b.c + (<any>a).b.c", "3");
    check("let a: any\n(a as any) = 1\na!++\na", "2");
    check("let a: any = null\na?.b!.c === undefined", "true");
    check("const f = <T,>(a: T) => a, g = f<number>\ng(1) + f<number>(2) + new Number<number>(3)", "6");
    check("const tag = (a: any) => a[0]\ntag<string>`x`", "\"x\"");
    check("function f(this: { a: number }, b?: number) { return this.a + (b ?? 1) }\nf.call({ a: 1 })", "2");
    check("let [a, { b }]: any = [1, { b: 2 }]\ntry { throw 3 } catch (e: unknown) { a += e as number }\n[a, b]", "[4,2]");
    check("let r = 0\nfor (const a of [1, 2] as number[]) r += a\nfor (let i: number = 0; i < 2; i++) r += i\nr", "4");
    check("let r = 0\nif (r as any) r = 1 as any\nelse r = 2 as any\ndo r++ as any\nwhile (r < 9)\nr", "9");
    // Signs of two, three and four bytes.
    check("let a: 'äöü' | '€' | '😀' = 'ä' as 'ä'; a", "\"ä\"");
}

#[test]
fn a_file_that_is_too_deep_or_too_long_is_refused() {
    let nested = |depth: usize| format!("a = {}1{}", "(".repeat(depth), ")".repeat(depth));
    assert!(strip("a.ts", &nested(NESTING)).is_ok());
    let flaw = strip("a.ts", &nested(NESTING + 1)).unwrap_err();
    assert_eq!((flaw.at, flaw.what.as_str()), (Some((1, 1_005)), "brackets are nested more than 1000 deep here"));
    assert_eq!(strip("a.ts", &nested(200_000)).unwrap_err(), flaw);
    let types = |depth: usize| format!("let a: {}1{}", "[".repeat(depth), "]".repeat(depth));
    assert!(strip("a.ts", &types(NESTING)).is_ok());
    assert!(strip("a.ts", &types(NESTING + 1)).is_err());
    // Chains without brackets that people and generators write.
    assert!(strip("a.ts", &format!("a = 1{}", " + 1".repeat(4_000))).is_ok());
    assert!(strip("a.ts", &format!("a{}", ".b()".repeat(2_000))).is_ok());
    assert!(strip("a.ts", &format!("if (a) {{}}{}", " else if (a) {}".repeat(2_000))).is_ok());
    assert!(strip("a.ts", &format!("let a: 1{}", " | 1".repeat(4_000))).is_ok());
    let long = |bytes: usize| format!("//{}", "x".repeat(bytes - 2));
    assert!(strip("a.ts", &long(FRAME_BYTES)).is_ok());
    assert_eq!(strip("a.ts", &long(FRAME_BYTES + 1)).unwrap_err().what, "the file has 1048577 bytes, and 1048576 is the most");
    // Many pieces take no longer than their number says.
    assert!(strip("a.ts", &"a!\n".repeat(FRAME_BYTES / 12)).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Pieces of the corpus in any order, with any piece cut out: what is accepted keeps its places, and nothing panics.
    #[test]
    fn whatever_is_accepted_keeps_its_places(picks in prop::collection::vec((0_usize..1_000, 0_usize..400, 0_usize..30), 1..6), gap in "[\n; ]{1,2}") {
        let all: Vec<&str> = cases().map(|(source, _)| source).collect();
        let piece = |(pick, cut, length): &(usize, usize, usize)| {
            let source = all[pick % all.len()];
            let start = source.floor_char_boundary(cut % (source.len() + 1));
            let end = source.floor_char_boundary((start + length % 12).min(source.len()));
            if length % 3 == 0 { format!("{}{}", &source[..start], &source[end..]) } else { source.to_owned() }
        };
        keeps_its_places(&picks.iter().map(piece).collect::<Vec<_>>().join(&gap));
    }

    #[test]
    fn no_text_stops_it(text in "\\PC{0,60}", code in "[a-c<>(){}\\[\\]:;,.?!=|&*+/\\-`'\"\n ]{0,60}") {
        keeps_its_places(&text);
        keeps_its_places(&code);
    }
}
