//! A list that is mostly of one.

/// A list that needs no heap for its first value.
///
/// Beside a `SmallVec` it can stand for a list of shorter-lived values: what borrows from a request and what borrows
/// from its answer go together.
#[derive(Clone, Debug)]
pub struct Few<T>(Held<T>);

#[derive(Clone, Debug)]
enum Held<T> {
    None([T; 0]),
    One([T; 1]),
    Many(Vec<T>),
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self(Held::None([]))
    }
}

impl<T> Few<T> {
    /// The values in their order.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        match &self.0 {
            Held::None(none) => none,
            Held::One(one) => one,
            Held::Many(many) => many,
        }
    }

    /// The same, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        match &mut self.0 {
            Held::None(none) => none,
            Held::One(one) => one,
            Held::Many(many) => many,
        }
    }

    /// Adds a value behind the others.
    pub fn push(&mut self, value: T) {
        self.0 = match core::mem::replace(&mut self.0, Held::None([])) {
            Held::None([]) => Held::One([value]),
            Held::One([first]) => Held::Many(vec![first, value]),
            Held::Many(mut many) => {
                many.push(value);
                Held::Many(many)
            }
        };
    }

    /// Keeps the values of which it is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for value in core::mem::take(self) {
            if keep(&value) {
                self.push(value);
            }
        }
    }
}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = core::iter::Chain<core::option::IntoIter<T>, std::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        let (one, many) = match self.0 {
            Held::None([]) => (None, Vec::new()),
            Held::One([one]) => (Some(one), Vec::new()),
            Held::Many(many) => (None, many),
        };
        one.into_iter().chain(many)
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut few = Self::default();
        values.into_iter().for_each(|value| few.push(value));
        few
    }
}

impl<T> core::ops::Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.as_slice()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_holds_what_was_pushed_in_its_order() {
        for n in 0..5 {
            let few: Few<usize> = (0..n).collect();
            assert_eq!(few.to_vec(), (0..n).collect::<Vec<_>>());
            assert_eq!(few.clone().into_iter().count(), n);
            let mut odd = few.clone();
            odd.retain(|value| value % 2 == 1);
            assert_eq!(odd.to_vec(), (0..n).filter(|value| value % 2 == 1).collect::<Vec<_>>());
        }
    }
}
