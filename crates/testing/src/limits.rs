//! The most that is read or kept of what a project's tests hand over, with the reasons.

/// A report of a runner. A hundred thousand tests with short messages fit; a report that is larger is not read.
pub const REPORT_BYTES_MAX: usize = 64 << 20;
/// Tests of one run. More than any project that was looked at has.
pub const TESTS_MAX: usize = 200_000;
/// What is kept of the message of a test that failed: enough for an assertion with both of its sides.
pub const MESSAGE_BYTES_MAX: usize = 600;
/// What is kept of a test's name.
pub const NAME_BYTES_MAX: usize = 500;
/// Remarks of one run; a runner that is broken says the same thing often.
pub const REMARKS_MAX: usize = 20;
/// A source file that is looked at for tests, types or mutants. People write a tenth of it; a larger one is named and not read.
pub const SOURCE_BYTES_MAX: usize = 1 << 20;
/// Tests of one file.
pub const FILE_TESTS_MAX: usize = 10_000;
/// Marks of one test or file.
pub const MARKS_MAX: usize = 50;
/// Nodes of an XML document.
pub const XML_NODES_MAX: u32 = 4_000_000;
/// Files of a project's settings are no larger.
pub const SETTINGS_BYTES_MAX: usize = 1 << 20;
/// How deep brackets may be nested where something recurses.
pub const NESTING_MAX: usize = 200;
