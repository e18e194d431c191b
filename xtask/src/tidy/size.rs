//! Files of at most 500 lines, functions of at most 100.

use super::list::{TidyCheck, TidyFinding};
use super::source::Source;

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 100;

pub fn files(sources: &[Source]) -> Vec<TidyFinding> {
    let long = |source: &Source| {
        let lines = source.text.lines().count();
        (lines > FILE_LINES_MAX).then(|| TidyFinding {
            check: TidyCheck::File,
            key: source.path.clone(),
            count: lines,
            what: format!("{} has {lines} lines, and {FILE_LINES_MAX} are the most", source.path),
        })
    };
    sources.iter().filter_map(long).collect()
}

pub fn functions(sources: &[Source]) -> Vec<TidyFinding> {
    let mut found: Vec<TidyFinding> = Vec::new();
    for source in sources {
        for function in source.functions().into_iter().filter(|function| function.lines > FUNCTION_LINES_MAX) {
            found.push(TidyFinding {
                check: TidyCheck::Function,
                key: format!("{}::{}", source.path, function.name),
                count: function.lines,
                what: format!(
                    "{}:{} `{}` has {} lines, and {FUNCTION_LINES_MAX} are the most",
                    source.path, function.line, function.name, function.lines
                ),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_too_many_is_found() {
        let fits = Source::of("a.rs", &"//\n".repeat(500));
        let long = Source::of("b.rs", &"//\n".repeat(501));
        let keys: Vec<String> = files(&[fits, long]).into_iter().map(|found| found.key).collect();
        assert_eq!(keys, ["b.rs"]);

        let of = |lines: usize| format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2));
        assert_eq!(functions(&[Source::of("a.rs", &of(100))]).len(), 0);
        let found = functions(&[Source::of("a.rs", &of(101))]);
        assert_eq!((found[0].key.as_str(), found[0].count), ("a.rs::f", 101));
    }
}
