//! How durable facts are.

/// How durable a fact must be before anyone is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// May be half a second late: losing it loses nothing anybody relied on. The list is closed.
    Progress,
    /// On disk before any reply, job start, rename or grant use.
    Fact,
    /// On disk and under the signed seal before it is acknowledged.
    Security,
}

/// A field that most records of its kind leave out.
pub(super) fn is_zero(n: &u64) -> bool {
    *n == 0
}
