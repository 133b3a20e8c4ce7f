//! `RotaryEmbedding`: pairs of elements turned by an angle that depends on the token's position.

use byoc_plugin_api::Error;

use super::array::{Array, Item, each, elements, shaped};
use super::call::{Call, Outputs};
use super::{FLOAT, I64, Kernel, SAME, kernel};

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("RotaryEmbedding", rotary, &[FLOAT, SAME, SAME, I64]),
];

/// Layout of heads: element `i` of one is at the sum of the strides times its coordinates, plus `i`.
struct Heads {
    batch: usize,
    heads: usize,
    tokens: usize,
    size: usize,
    strides: [usize; 3],
}

impl Heads {
    fn new(shape: &[usize], heads: i64) -> Result<Heads, Error> {
        match *shape {
            [batch, heads, tokens, size] => {
                Ok(Heads { batch, heads, tokens, size, strides: [heads * tokens * size, tokens * size, size] })
            }
            [batch, tokens, hidden] => {
                let heads = usize::try_from(heads).ok().filter(|&heads| heads > 0 && hidden % heads == 0);
                let heads = heads.ok_or_else(|| Error::new(format!("num_heads does not divide {hidden}")))?;
                let size = hidden / heads;
                Ok(Heads { batch, heads, tokens, size, strides: [tokens * hidden, size, hidden] })
            }
            _ => Err(Error::new("RotaryEmbedding needs a tensor of rank 3 or 4")),
        }
    }

    fn start(&self, batch: usize, head: usize, token: usize) -> usize {
        batch * self.strides[0] + head * self.strides[1] + token * self.strides[2]
    }
}

/// `RotaryEmbedding`.
pub(crate) fn rotary(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let heads = Heads::new(x.shape(), call.node.int("num_heads", 0))?;
    let turned = match usize::try_from(call.node.int("rotary_embedding_dim", 0)) {
        Ok(0) => heads.size,
        Ok(turned) if turned <= heads.size => turned,
        _ => return Err(Error::new("rotary_embedding_dim is larger than a head")),
    };
    let half = turned / 2;
    let interleaved = call.node.int("interleaved", 0) != 0;
    let (cos, sin) = (call.input(1)?, call.input(2)?);
    if cos.shape() != sin.shape() || cos.shape().last() != Some(&half) {
        return Err(Error::new(format!("caches {:?} and {:?} for {turned} elements", cos.shape(), sin.shape())));
    }
    let tokens = heads.batch * heads.tokens;
    // Without positions the caches have a row for each token.
    let positions = call.ints(3).unwrap_or_else(|| (0..tokens as i64).collect());
    if positions.len() != tokens {
        return Err(Error::new(format!("{} positions for {tokens} tokens", positions.len())));
    }
    let rows = cos.len().checked_div(half).unwrap_or(0);
    let mut data = x.to_f64().into_raw_vec_and_offset().0;
    for (b, t) in (0..heads.batch).flat_map(|b| (0..heads.tokens).map(move |t| (b, t))) {
        let position = positions[b * heads.tokens + t];
        // A position is not an index: negative ones do not count from the end.
        let row = usize::try_from(position).ok().filter(|&row| row < rows || half == 0).ok_or_else(|| {
            Error::new(format!("position {position} of token {t} in batch {b} is out of range for {rows} rows of cos"))
        })?;
        let (cos, sin) = (cache_row(cos, row, half), cache_row(sin, row, half));
        for h in 0..heads.heads {
            let head = &mut data[heads.start(b, h, t)..][..heads.size];
            for i in 0..half {
                let (first, second) = if interleaved { (2 * i, 2 * i + 1) } else { (i, i + half) };
                let (x, y) = (head[first], head[second]);
                let (cos, sin) = (cos[i], sin[i]);
                (head[first], head[second]) = (cos * x - sin * y, sin * x + cos * y);
            }
        }
    }
    call.rounded(shaped(x.shape(), data)?)
}

/// A row of a cache. There are as many as a text may be long, and a run needs few.
fn cache_row(cache: &Array<'_>, row: usize, half: usize) -> Vec<f64> {
    each!(cache, x => elements(&x.view())[row * half..][..half].iter().map(|&value| value.to_f64()).collect())
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::Attribute;

    use super::super::testing::{all, counting, first, tensor};

    #[test]
    fn pairs_turn_by_the_angle_of_their_position() {
        let int = |name: &'static str, value| (name, Attribute::Int(value));
        // Position 1 turns by 90 degrees, position 0 not at all.
        let caches = |half: usize| {
            let rows = |first: f32, second: f32| [vec![first; half], vec![second; half]].concat();
            vec![tensor(&[2, half], &rows(1.0, 0.0)), tensor(&[2, half], &rows(0.0, 1.0))]
        };
        let turn = |attributes: &[_], half, position: i64| {
            let inputs = [vec![counting(&[1, 1, 1, 4])], caches(half), vec![tensor(&[1, 1], &[position])]].concat();
            first("RotaryEmbedding", attributes, inputs).1
        };
        assert_eq!(turn(&[], 2, 0), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(turn(&[], 2, 1), [-3.0, -4.0, 1.0, 2.0]);
        assert_eq!(turn(&[int("interleaved", 1)], 2, 1), [-2.0, 1.0, -4.0, 3.0]);
        assert_eq!(turn(&[int("rotary_embedding_dim", 2)], 1, 1), [-2.0, 1.0, 3.0, 4.0]);
        let flat = [vec![counting(&[1, 1, 4])], caches(1), vec![tensor(&[1, 1], &[1i64])]].concat();
        assert_eq!(first("RotaryEmbedding", &[int("num_heads", 2)], flat).1, [-2.0, 1.0, -4.0, 3.0]);
        for position in [2i64, -1, i64::MIN] {
            let outside = [vec![counting(&[1, 1, 1, 4])], caches(2), vec![tensor(&[1, 1], &[position])]].concat();
            let error = all("RotaryEmbedding", &[], outside).expect_err("outside");
            let expected = format!("position {position} of token 0 in batch 0 is out of range for 2 rows of cos");
            assert_eq!((error.message, error.node.as_deref()), (expected, Some("node")));
        }
    }
}
