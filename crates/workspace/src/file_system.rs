//! File systems whose ways are known, by the number that `statfs` gives.

const EXT4: i64 = 0xef53;
const XFS: i64 = 0x5846_5342;
const BTRFS: i64 = 0x9123_683e;
const TMPFS: i64 = 0x0102_1994;
const OVERLAY: i64 = 0x794c_7630;
const F2FS: i64 = 0xf2f5_2010;
const ZFS: i64 = 0x2fc1_2fc1;
const BCACHEFS: i64 = 0xca45_1a4e;

/// Those whose files this machine's own clock stamps.
pub(crate) const LOCAL: [i64; 8] = [EXT4, XFS, BTRFS, TMPFS, OVERLAY, F2FS, ZFS, BCACHEFS];
/// Those that exchange two names in one step.
pub(crate) const EXCHANGING: [i64; 6] = [EXT4, XFS, BTRFS, TMPFS, OVERLAY, F2FS];
