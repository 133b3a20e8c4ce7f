//! Finds verbatim copies: the places in some blobs where [`PART`] bytes or more of some targets are, at any alignment.
//!
//! Each target is cut into blocks of half a part, so whatever part of it is copied, a whole block is. One window of
//! each block goes into a table; the windows of the blobs are looked up in it, and what is found is compared and
//! extended byte by byte. Only one window in sixteen counts, by its content, so that both sides agree on which whatever
//! the alignment; and a bit filter is in front of the table. That keeps the pass over the blobs fast.

use bytes::Bytes;

/// Shortest copy that is looked for.
pub(super) const PART: usize = 1024;

const BLOCK: usize = PART / 2;

/// Bytes that are looked up at once.
const WINDOW: usize = 16;

/// Windows that are looked at in one go.
const STEP: usize = 64;

/// Slots that are tried for a window. The table is half empty, so only blocks that share a window ever fill so many.
const REACH: usize = 64;

/// Most bits of a filter: 32 MiB.
const FILTER_BITS: usize = 1 << 28;

/// A copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// Which blob holds it.
    pub(super) blob: usize,
    /// What it is a copy of.
    pub(super) target: usize,
    /// Where it starts in the blob.
    pub(super) offset: usize,
    /// Where the original of it starts in the target.
    pub(super) start: usize,
    /// Number of bytes.
    pub(super) len: usize,
}

/// Every copy, in the order of the blobs and their bytes.
pub(super) fn search(blobs: &[Bytes], targets: &[Bytes]) -> Vec<Hit> {
    let windows: usize = blobs.iter().filter(|blob| blob.len() >= PART).map(Bytes::len).sum();
    if windows == 0 {
        return Vec::new();
    }
    let weights: usize = targets.iter().map(Bytes::len).sum();
    // With less code than weights, most blocks can be told to have no copy before they enter the table.
    let present = (windows <= FILTER_BITS && windows <= weights / 4).then(|| {
        let mut filter = Filter::new(windows / 16);
        blobs.iter().filter(|blob| blob.len() >= PART).for_each(|blob| {
            find(blob, 0, |hash| {
                filter.insert(hash);
                false
            });
        });
        filter
    });
    let table = Table::new(targets, present.as_ref());
    if table.count == 0 {
        return Vec::new();
    }
    let mut hits = Vec::new();
    for (index, blob) in blobs.iter().enumerate().filter(|(_, blob)| blob.len() >= PART) {
        table.scan(index, blob, &mut hits);
    }
    hits
}

/// The first window from `from` on that counts and whose hash is accepted. Windows count by their content: one in
/// sixteen of random bytes, so that a block without any comes once in 10^13.
#[inline(always)]
fn find(bytes: &[u8], from: usize, mut accept: impl FnMut(u64) -> bool) -> Option<usize> {
    let mut at = from;
    while let Some(piece) = bytes.get(at..).and_then(|rest| rest.first_chunk::<{ STEP + WINDOW }>()) {
        // Without a branch, so that the compiler makes vector code of it.
        let mut marks = [0u8; STEP];
        for (place, mark) in marks.iter_mut().enumerate() {
            *mark = u8::from(counts(piece, place));
        }
        let mut left = bits(&marks);
        while left != 0 {
            let place = left.trailing_zeros() as usize;
            if hash(&piece[place..]).is_some_and(&mut accept) {
                return Some(at + place);
            }
            left &= left - 1;
        }
        at += STEP;
    }
    let last = (bytes.len() + 1).saturating_sub(WINDOW);
    (at..last).find(|&at| counts(bytes, at) && hash(&bytes[at..]).is_some_and(&mut accept))
}

/// One bit for each mark, which is 0 or 1: a product gathers eight of them in its highest byte.
#[inline(always)]
fn bits(marks: &[u8; STEP]) -> u64 {
    let groups = marks.as_chunks::<8>().0.iter().enumerate();
    groups.fold(0, |bits, (group, marks)| {
        bits | u64::from_le_bytes(*marks).wrapping_mul(0x0102_0408_1020_4080) >> 56 << (8 * group)
    })
}

#[inline(always)]
fn counts(bytes: &[u8], at: usize) -> bool {
    let sum = bytes[at].wrapping_add(bytes[at + 1]).wrapping_add(bytes[at + 2]).wrapping_add(bytes[at + 3]);
    sum & 15 == 0
}

/// The hash of the window at the start; none where its halves are equal, as in runs of one element, which are in any
/// file.
#[inline(always)]
fn hash(window: &[u8]) -> Option<u64> {
    let (first, second) = (word(window, 0), word(window, 8));
    let mixed =
        (first.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ second.rotate_left(29)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (first != second).then_some(mixed ^ mixed >> 32)
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

/// A set that may say yes by mistake, but never no. Both bits of a member are in one word.
struct Filter {
    words: Vec<u64>,
    shift: u32,
}

impl Filter {
    fn new(members: usize) -> Filter {
        let bits = members.saturating_mul(16).next_power_of_two().clamp(1 << 10, FILTER_BITS);
        Filter { words: vec![0; bits / 64], shift: 64 - (bits / 64).trailing_zeros() }
    }

    #[inline(always)]
    fn place(&self, hash: u64) -> (usize, u64) {
        ((hash >> self.shift) as usize, 1 << (hash & 63) | 1 << (hash >> 6 & 63) | 1 << (hash >> 12 & 63))
    }

    #[inline(always)]
    fn insert(&mut self, hash: u64) {
        let (word, bits) = self.place(hash);
        self.words[word] |= bits;
    }

    #[inline(always)]
    fn contains(&self, hash: u64) -> bool {
        let (word, bits) = self.place(hash);
        self.words[word] & bits == bits
    }
}

/// Where in the targets a window may be.
struct Table<'a> {
    targets: &'a [Bytes],
    /// The first block of each target: blocks are numbered through.
    first: Vec<usize>,
    /// Block numbers plus one, by hash; the next slots are tried where one is taken.
    slots: Vec<u32>,
    filter: Filter,
    count: usize,
}

impl<'a> Table<'a> {
    fn new(targets: &'a [Bytes], present: Option<&Filter>) -> Table<'a> {
        let mut first = Vec::with_capacity(targets.len());
        let mut blocks = 0;
        for target in targets {
            first.push(blocks);
            blocks += target.len() / BLOCK;
        }
        let mut table = Table { targets, first, slots: Vec::new(), filter: Filter::new(0), count: 0 };
        let wanted = present.map(|present| table.blocks_in(present));
        let count = wanted.as_ref().map_or(blocks, Vec::len);
        table.slots = vec![0; count * 2 + REACH];
        table.filter = Filter::new(count);
        match wanted {
            Some(wanted) => wanted.into_iter().for_each(|block| table.insert(block)),
            None => (0..blocks).filter_map(|block| u32::try_from(block).ok()).for_each(|block| table.insert(block)),
        }
        table
    }

    /// The blocks whose windows are in the filter.
    fn blocks_in(&self, filter: &Filter) -> Vec<u32> {
        let mut found = Vec::new();
        for (target, &first) in self.targets.iter().zip(&self.first) {
            let blocks = (0..target.len() / BLOCK)
                .filter(|&block| probe(target, block).is_some_and(|(_, hash)| filter.contains(hash)));
            found.extend(blocks.filter_map(|block| u32::try_from(first + block).ok()));
        }
        found
    }

    /// The target of a block, and the block's number within it.
    fn place(&self, block: usize) -> (usize, usize) {
        let target = self.first.partition_point(|&first| first <= block) - 1;
        (target, block - self.first[target])
    }

    fn slot(&self, hash: u64) -> usize {
        ((u128::from(hash) * (self.slots.len() - REACH) as u128) >> 64) as usize
    }

    fn insert(&mut self, block: u32) {
        let (target, within) = self.place(block as usize);
        let (Some((_, hash)), Some(number)) = (probe(&self.targets[target], within), block.checked_add(1)) else {
            return;
        };
        let slot = self.slot(hash);
        if let Some(free) = self.slots[slot..slot + REACH].iter_mut().find(|number| **number == 0) {
            *free = number;
            self.filter.insert(hash);
            self.count += 1;
        }
    }

    fn scan(&self, blob: usize, bytes: &[u8], hits: &mut Vec<Hit>) {
        let (mut at, mut taken) = (0, 0);
        while let Some(found) = find(bytes, at, |hash| self.filter.contains(hash)) {
            at = found;
            match self.longest(&bytes[taken..], at - taken) {
                Some(mut hit) if hit.len >= PART => {
                    hit.blob = blob;
                    hit.offset += taken;
                    taken = hit.offset + hit.len;
                    at = taken;
                    hits.push(hit);
                }
                _ => at += 1,
            }
        }
    }

    /// The longest copy over the window at `at`.
    fn longest(&self, bytes: &[u8], at: usize) -> Option<Hit> {
        let slot = self.slot(hash(&bytes[at..])?);
        let places = self.slots[slot..slot + REACH].iter().take_while(|&&number| number != 0);
        let copies = places.filter_map(|&number| {
            let (target, block) = self.place(number as usize - 1);
            let (start, _) = probe(&self.targets[target], block)?;
            let original = &self.targets[target];
            if bytes[at..at + WINDOW] != original[start..start + WINDOW] {
                return None;
            }
            let before = common_suffix(&bytes[..at], &original[..start]);
            let len = before + common_prefix(&bytes[at..], &original[start..]);
            Some(Hit { blob: 0, target, offset: at - before, start: start - before, len })
        });
        copies.max_by_key(|hit| hit.len)
    }
}

/// The window that stands for a block: the first that counts. Its offset in the target, and its hash.
fn probe(target: &[u8], block: usize) -> Option<(usize, u64)> {
    let start = block * BLOCK;
    let block = &target[start..start + BLOCK];
    let offset = find(block, 0, |_| true)?;
    Some((start + offset, hash(&block[offset..])?))
}

fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    const STEP: usize = 64;
    let whole = one.chunks_exact(STEP).zip(other.chunks_exact(STEP)).take_while(|(a, b)| a == b).count() * STEP;
    whole + one[whole..].iter().zip(&other[whole..]).take_while(|(a, b)| a == b).count()
}

fn common_suffix(one: &[u8], other: &[u8]) -> usize {
    one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
        }

        fn below(&mut self, end: usize) -> usize {
            (self.next() >> 16) as usize % end
        }

        fn bytes(&mut self, len: usize) -> Vec<u8> {
            (0..len).map(|_| (self.next() >> 40) as u8).collect()
        }
    }

    #[test]
    fn copies_are_found_at_any_place_and_alignment() {
        let mut random = Random(11);
        let targets: Vec<Bytes> = (0..20).map(|i| Bytes::from(random.bytes(1024 + 777 * i))).collect();
        for _ in 0..300 {
            let (mut blob, mut expected) = (Vec::new(), Vec::new());
            for _ in 0..random.below(6) {
                let length = random.below(3000);
                blob.extend(random.bytes(length));
                let target = random.below(targets.len());
                let size = targets[target].len();
                let start = random.below(size - 1000);
                let len = (1000 + random.below(3000)).min(size - start);
                if len >= PART {
                    expected.push(Hit { blob: 1, target, offset: blob.len(), start, len });
                }
                blob.extend_from_slice(&targets[target][start..start + len]);
                // So that what follows does not go on as the target does.
                blob.push(targets[target].get(start + len).map_or(0, |byte| !byte));
            }
            let mut hits = search(&[Bytes::from_static(b"short"), blob.into()], &targets);
            for (hit, expected) in hits.iter_mut().zip(&expected) {
                // The byte before may be that of the target by chance.
                let extra = expected.offset - hit.offset;
                assert!(extra < 3, "{hit:?} {expected:?}");
                (hit.offset, hit.start, hit.len) = (hit.offset + extra, hit.start + extra, hit.len - extra);
            }
            assert_eq!(hits, expected);
        }
    }

    #[test]
    fn runs_and_repeats_do_not_hide_a_copy() {
        let mut random = Random(5);
        let mut target = vec![0; 3000];
        target.extend(random.bytes(64));
        target.extend(vec![7; 3000]);
        let row = random.bytes(600);
        let rows: Vec<u8> = std::iter::repeat_n(row, 500).flatten().collect();
        let other = random.bytes(5000);
        let targets = [Bytes::from(target.clone()), rows.clone().into(), other.clone().into(), vec![0; 99_999].into()];
        let found = |blob: &[u8]| -> Vec<(usize, usize)> {
            search(&[Bytes::copy_from_slice(blob)], &targets).iter().map(|hit| (hit.target, hit.len)).collect()
        };
        assert_eq!(found(&target), [(0, target.len())]);
        assert_eq!(found(&rows[..30_000]), [(1, 30_000)]);
        assert_eq!(found(&other[100..2000]), [(2, 1900)]);
        assert_eq!(found(&vec![0; 50_000]), []);
        assert_eq!(found(&vec![7; 50_000]), []);
    }

    #[test]
    fn many_more_targets_than_code_and_the_reverse() {
        let mut random = Random(3);
        let targets: Vec<Bytes> = (0..2000).map(|_| Bytes::from(random.bytes(4096))).collect();
        let code = [&random.bytes(99)[..], &targets[1234][1..1500]].concat();
        let expected = Hit { blob: 0, target: 1234, offset: 99, start: 1, len: 1499 };
        assert_eq!(search(&[code.into()], &targets), [expected]);
        let code = [&random.bytes(3_000_000)[..], &targets[7]].concat();
        let expected = Hit { blob: 0, target: 0, offset: 3_000_000, start: 0, len: 4096 };
        assert_eq!(search(&[code.into()], &targets[7..8]), [expected]);
    }
}
