use super::host::Test; pub const TESTS: &[Test] = &[];
