use super::*;

/// Each test as `name assertions/constant`, with `marks`, `!` if it is focused, `0` if it is empty, `<` if it returns early.
#[track_caller]
fn check(path: &str, text: &str, expected: &[&str]) {
    let show = |test: &SourceTest| {
        let mut shown = format!("{} {}/{}", test.name, test.assertions, test.constant_assertions);
        for mark in &test.marks {
            shown.push_str(&format!(" {mark}"));
        }
        for (flag, sign) in [(test.is_focused, " !"), (test.is_empty, " 0"), (test.returns_early, " <")] {
            shown.push_str(if flag { sign } else { "" });
        }
        shown
    };
    let found: Vec<String> = find_tests(path, text).iter().map(show).collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn tests_of_rust() {
    check("src/a.rs", "fn a() { assert!(x) }", &[]);
    let text = r#"
        #[cfg(test)]
        mod tests {
            use super::*;
            fn check(x: u32) { assert_eq!(x, 1, "{x}"); }
            #[test]
            fn one() { assert_eq!(add(1, 1), 2); check(1); add(1, 2).unwrap(); }
            #[test]
            #[ignore = "slow"]
            fn two() { /* assert!(x) */ let s = "assert!(x)"; }
            #[tokio::test(flavor = "multi_thread")]
            async fn three() {}
            #[test]
            #[should_panic(expected = "x")]
            fn four() { assert!(true); assert_eq!(1, 1); assert!(a == a); return; }
            mod inner { #[test] fn five() -> Result<(), E> { return Ok(()); assert!(x()); } }
            #[cfg_attr(miri, ignore)] #[test] fn six() { run()?; }
        }
    "#;
    check(
        "src/a.rs",
        text,
        &[
            "tests::one 3/0",
            "tests::two 0/0 #[ignore]",
            "tests::three 0/0 0",
            "tests::four 3/3 #[should_panic]",
            "tests::inner::five 1/0 <",
            "tests::six 1/0 #[cfg_attr(…, ignore)]",
        ],
    );
    check("tests/a.rs", "proptest! { #[test] fn p(a in 0..3u8) { prop_assert!(a < 3); } }", &["p 1/0"]);
    check("tests/a.rs", "#[rstest]\n#[case(1)]\npub fn c(#[case] a: u8) { assert_ne!(a, 0) }", &["c 1/0"]);
}

#[test]
fn tests_of_python() {
    let text = r#"
import pytest

def helper(x):
    assert x == 1

def test_one():
    helper(1)
    assert f(1) == 2, "text"
    with pytest.raises(ValueError):
        f(2)

@pytest.mark.skip(reason="later")
def test_two():
    """doc"""
    pass

class TestThings:
    @pytest.mark.parametrize("x", [1, 2])
    @pytest.mark.xfail
    def test_three(self, x):
        assert True
        assert 1 == 1
        assert x == x
        assert (x, "always")

    def test_four(self):
        return
        self.assertEqual(1, f())

    def not_a_test(self):
        assert x

async def test_five():
    pytest.skip("no net")
    assert f()

def test_six():
    if f():
        return
    assert (
        g()
        == 3
    )
"#;
    check(
        "tests/test_a.py",
        text,
        &[
            "test_one 3/0",
            "test_two 0/0 @skip 0",
            "TestThings::test_three 4/4 @xfail",
            "TestThings::test_four 1/0 <",
            "test_five 1/0 skip()",
            "test_six 1/0",
        ],
    );
    assert_eq!(read_file("test_a.py", "pytestmark = pytest.mark.skip\n").marks, ["pytestmark"]);
    assert_eq!(read_file("test_a.py", "import pytest\npytest.skip('x', allow_module_level=True)\n").marks, ["pytest.skip()"]);
}

#[test]
fn tests_of_scripts() {
    let text = r#"
        import { test, expect, describe, it } from 'vitest';
        const same = (a, b) => { expect(a).toBe(b); };
        test('one', () => { expect(f(1)).toBe(2); same(1, 2); });
        test.skip('two', async () => { await expect(f()).resolves.not.toThrow(); });
        describe('group', () => {
          it.only('three', function () { expect(true).toBe(true); expect(1).toEqual(1); expect(a).toBe(a); expect(x); });
          it.each([[1, 2], [3, 4]])('four %s', (a) => { return; expect(a).toBe(1) });
          describe.skip('inner', () => { it("five", () => {}) });
        });
        xit('six', () => { assert.equal(f(), 1); assert(true); });
        test('seven', { skip: true }, (t) => { t.test('sub', () => {}); assert.ok(f()) });
        test.todo('eight');
        it('nine', () => expect(f()).toBe(1));
        /x/.test('no'); regex.test('nor this');
    "#;
    check(
        "src/a.test.ts",
        text,
        &[
            "one 2/0",
            "two 1/0 .skip",
            "group > three 4/4 !",
            "group > four %s 1/0 <",
            "group > inner > five 0/0 .skip 0",
            "six 2/1 xit",
            "seven 1/0 {skip}",
            "eight 0/0 .todo 0",
            "nine 1/0",
        ],
    );
}

#[test]
fn tests_of_go() {
    let text = "//go:build slow\npackage a\n\nimport \"testing\"\n\nfunc check(t *testing.T, a int) {\n\tif a != 1 {\n\t\tt.Fatal(a)\n\t}\n}\n\n\
        func TestOne(t *testing.T) {\n\tcheck(t, 1)\n\tif err := f(); err != nil {\n\t\tt.Errorf(\"got %v\", err.Error())\n\t}\n}\n\n\
        func TestTwo(t *testing.T) {\n\tt.Skip(\"later\")\n}\n\n\
        func TestThree(t *testing.T) {\n\tif false {\n\t\tt.Fatal(1)\n\t}\n\tassert.True(t, true)\n\trequire.Equal(t, 1, 1)\n}\n\n\
        func (s *Suite) TestFour() {\n\ts.Equal(1, 2)\n}\n\nfunc TestMain(m *testing.M) {}\nfunc Testing() {}\nfunc TestFive(t *testing.T) {}\n";
    check("a_test.go", text, &["TestOne 2/0", "TestTwo 0/0 t.Skip", "TestThree 3/3", "TestFour 0/0", "TestFive 0/0 0"]);
    assert_eq!(read_file("a_test.go", text).marks, ["//go:build slow"]);
}

#[test]
fn habits_are_named() {
    let check = |path: &str, body: &str, habit: TestHabit| {
        let text = match SourceLanguage::of(path) {
            Some(SourceLanguage::Rust) => format!("#[test] fn a() {{ {body} }}"),
            Some(SourceLanguage::Python) => format!("def test_a():\n    {body}\n"),
            Some(SourceLanguage::Go) => {
                format!("package a\nfunc TestA(t *testing.T) {{\n{body}\n}}\n")
            }
            _ => format!("test('a', () => {{ {body} }})"),
        };
        assert_eq!(find_tests(path, &text)[0].habits, [habit], "{text}");
    };
    check("a.rs", "std::time::SystemTime::now();", TestHabit::ReadsClock);
    check("a.rs", "std::env::var(\"CI\");", TestHabit::ReadsEnvironment);
    check("a.rs", "std::fs::write(\"src/lib.rs\", \"\");", TestHabit::WritesFiles);
    check("a.rs", "std::process::exit(0);", TestHabit::EndsProcess);
    check("a.rs", "std::panic::catch_unwind(|| ());", TestHabit::CatchesEverything);
    check("a.py", "if time.time() > 9: pass", TestHabit::ReadsClock);
    check("a.py", "os.environ['X']", TestHabit::ReadsEnvironment);
    check("a.py", "open('src/a.py', 'w')", TestHabit::WritesFiles);
    check("a.py", "os._exit(0)", TestHabit::EndsProcess);
    check("a.py", "subprocess.run(['x'])", TestHabit::StartsProcesses);
    check("a.py", "try: f()\n    except: pass", TestHabit::CatchesEverything);
    check("a.ts", "new Date()", TestHabit::ReadsClock);
    check("a.ts", "process.env.X", TestHabit::ReadsEnvironment);
    check("a.ts", "fs.writeFileSync('src/a.ts', '')", TestHabit::WritesFiles);
    check("a.ts", "try { f() } catch (e) {}", TestHabit::CatchesEverything);
    check("a_test.go", "time.Now()", TestHabit::ReadsClock);
    check("a_test.go", "os.Getenv(\"X\")", TestHabit::ReadsEnvironment);
    check("a_test.go", "os.Exit(0)", TestHabit::EndsProcess);
    assert_eq!(find_tests("a.py", "def test_a():\n    assert open('x').read() == 'now'\n")[0].habits, []);
}

/// Texts that make a reader slow which looks again and again: they end, and that is all.
#[test]
fn no_text_takes_long() {
    let pieces = [
        "expect(",
        "expect(a).toBe(b);",
        "/[",
        "t.Fatal(1)\n",
        "#[a]",
        "'",
        "`${",
        "def test_a():\n  assert x\n",
        "except: ",
        "a\n",
        "#[test]fn a(){}",
        "{",
    ];
    for piece in pieces {
        let text = piece.repeat(crate::limits::SOURCE_BYTES_MAX / 16 / piece.len());
        for path in ["tests/a.rs", "test_a.py", "a.test.ts", "a_test.go"] {
            let _ = read_file(path, &text);
            let _ = read_file(path, &format!("#[test] fn a() {{ {text} }}"));
        }
    }
    let deep = format!("#[test] fn a() {{ {}{} }}", "(".repeat(300), ")".repeat(300));
    assert!(!read_file("tests/a.rs", &deep).is_whole);
}

/// What looks like a comment and is code hides nothing: a parser is asked, and without an answer the file is not whole.
#[test]
fn what_only_looks_like_a_comment_is_doubted() {
    let check = |path: &str, text: &str, expected: bool| assert_eq!(read_file(path, text).is_whole, expected, "{text}");
    check("a.test.js", "{} /a//2; process.exit(0)", false);
    check("a.test.js", "if (x) /a//2; process.exit(0)", false);
    check("a.test.ts", "let a = (b + c) / 2 // the mean", true);
    check("a.test.ts", "let a = (b + c) / 2 // the mean\nlet b = (", false);
    check("a.test.ts", "let a = 1 // one", true);
    check("test_a.py", "x = f\"{d[\"#\"]}\"; exit()", false);
    check("test_a.py", "x = f\"{d['a']}\"  # so", true);
}
