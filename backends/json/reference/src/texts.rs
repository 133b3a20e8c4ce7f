//! Texts in kernels: what handles stand for, and handles for new texts.

use std::collections::HashMap;
use std::sync::Arc;

use byoc_plugin_api::{Error, Handle, Texts};

use super::array::{Array, Item, shaped};
use super::call::Call;

impl<'a> Call<'_, 'a> {
    fn table(&self) -> Result<&dyn Texts, Error> {
        self.table.ok_or_else(|| Error::new("no table of texts was lent to the region"))
    }

    /// The texts of an input, row-major.
    pub(crate) fn texts(&self, input: usize) -> Result<Vec<Arc<str>>, Error> {
        let (table, handles) = (self.table()?, handles(self.input(input)?)?);
        handles.into_iter().map(|handle| table.get(handle)).collect()
    }

    /// A handle for a text.
    pub(crate) fn handle(&self, text: &str) -> Result<Handle, Error> {
        self.table()?.add(text)
    }

    /// A tensor of these texts.
    pub(crate) fn strings<T: AsRef<str>>(&self, shape: &[usize], texts: &[T]) -> Result<Array<'static>, Error> {
        let handles = texts.iter().map(|text| self.handle(text.as_ref())).collect::<Result<Vec<_>, _>>()?;
        Ok(Item::wrap(shaped(shape, handles)?))
    }

    /// The inputs as elements that are equal, and in order, where those of the inputs are: texts as their places in the order of all
    /// of them, of which the empty one has 0; others as they are.
    pub(crate) fn comparable<const N: usize>(&self, inputs: [usize; N]) -> Result<[Array<'a>; N], Error> {
        let mut arrays = Vec::with_capacity(N);
        for input in inputs {
            arrays.push(self.input(input)?.clone());
        }
        if arrays.iter().any(|array| matches!(array, Array::String(_))) {
            self.rank(&mut arrays)?;
        }
        arrays.try_into().map_err(|_| Error::new("the inputs are others than were asked for"))
    }

    fn rank(&self, arrays: &mut [Array<'a>]) -> Result<(), Error> {
        let table = self.table()?;
        let mut all = vec![(Arc::<str>::default(), Handle::default())];
        let mut known = HashMap::from([(Handle::default(), 0)]);
        for array in arrays.iter() {
            for handle in Handle::of(array).iter().flatten().copied() {
                if known.insert(handle, 0).is_none() {
                    all.push((table.get(handle)?, handle));
                }
            }
        }
        all.sort_unstable();
        let mut place = 0u64;
        for (index, (text, handle)) in all.iter().enumerate() {
            place += u64::from(index > 0 && all[index - 1].0 != *text);
            known.insert(*handle, place);
        }
        for array in arrays {
            let places = |handle| known.get(&handle).copied().unwrap_or(0);
            if let Some(places) = Handle::of(array).map(|handles| handles.mapv(places)) {
                *array = Array::U64(places.into());
            }
        }
        Ok(())
    }

    /// An element of an input, as a message has it.
    pub(crate) fn shown(&self, input: usize, place: usize) -> String {
        let texts = self.texts(input).ok();
        let text = texts.and_then(|texts| Some(format!("'{}'", texts.get(place)?)));
        text.or_else(|| Some(self.ints(input)?.get(place)?.to_string())).unwrap_or_default()
    }
}

/// The handles of an array of texts, row-major.
fn handles(array: &Array<'_>) -> Result<Vec<Handle>, Error> {
    let handles = Handle::of(array).ok_or_else(|| Error::new(format!("texts expected, found {}", array.dtype())))?;
    Ok(handles.iter().copied().collect())
}
