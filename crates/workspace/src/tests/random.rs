//! Numbers from a seed, so that a failure can be had again, or from bytes that somebody else chose.

pub struct Random {
    state: u64,
    bytes: std::vec::IntoIter<u8>,
}

impl Random {
    pub fn new(seed: u64) -> Random {
        Random { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, bytes: Vec::new().into_iter() }
    }

    /// Each byte decides one thing, and what comes after them follows from all of them.
    pub fn of_bytes(bytes: &[u8]) -> Random {
        let seed = bytes.iter().fold(7u64, |sum, byte| sum.wrapping_mul(0x100_0000_01b3) ^ u64::from(*byte));
        Random { bytes: Vec::from(bytes).into_iter(), ..Random::new(seed) }
    }

    pub fn next(&mut self) -> u64 {
        if let Some(byte) = self.bytes.next() {
            return byte.into();
        }
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    /// Below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// In `of` cases of a hundred.
    pub fn chance(&mut self, of: usize) -> bool {
        self.below(100) < of
    }

    pub fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}
