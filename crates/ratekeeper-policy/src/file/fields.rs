//! The table of fields: what each place of the file knows, what its values may be, and what they mean. It drives the
//! decoder, the messages about unknown names, the schema for editors (`schema`), and the reference in `docs`.

mod forms;
#[cfg(test)]
mod reference;
mod rows;
mod rows_of_policies;
mod rows_of_stores;

use ratekeeper_core::Algorithm;

use crate::hints::nearest;
pub(super) use forms::{DURATION, Form, Grammar, SIZE};
pub(super) use rows::*;
pub(super) use rows_of_policies::*;
pub(super) use rows_of_stores::*;

/// A kind of mapping in the file.
#[derive(Debug)]
pub(super) struct Place {
    /// Unique among places: where the first of its kind stands.
    pub(super) path: &'static str,
    /// As messages call it.
    pub(super) name: &'static str,
    /// A sentence: what it is for.
    pub(super) doc: &'static str,
    pub(super) fields: &'static [Field],
    /// What its fields demand of each other, as far as it can be said of the mapping alone.
    pub(super) rules: &'static [Rule],
    /// What other limiters call their fields.
    pub(super) foreign: Option<Foreign>,
}

/// Words of other limiters for one field of ours.
#[derive(Debug)]
pub(super) struct Foreign {
    words: &'static [&'static str],
    field: &'static str,
    remedy: &'static str,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) status: Status,
}

#[derive(Debug)]
pub(super) enum Status {
    Built(Row),
    /// Known, but not available in this version; with the remedy.
    Later(&'static str),
}

/// What can be written for a field.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) form: Form,
    pub(super) need: Need,
    /// A sentence: what it promises.
    pub(super) doc: &'static str,
    /// A value as it may be written.
    pub(super) example: &'static str,
}

/// What holds without a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Need {
    Required,
    /// The same as with this value, as it would be written.
    Default(&'static str),
    /// Something else, in words.
    Optional(&'static str),
}

/// What fields of a mapping demand of each other.
#[derive(Debug)]
pub(super) enum Rule {
    /// One of them is there, and only one.
    One(&'static [&'static str]),
    /// Something is there.
    NotEmpty,
    /// Both cannot be there.
    Exclude(&'static str, &'static str),
    /// The first needs the second.
    Needs(&'static str, &'static str),
    /// The first, if it says this, needs the second.
    NeedsIf(&'static str, &'static str, &'static str),
    /// The field is for these words of another, which must be there.
    OnlyFor(&'static str, &'static str, fn() -> Vec<&'static str>),
    /// The field may be left out if each item of the list has it.
    OrEach(&'static str, &'static str),
}

const fn field(
    name: &'static str,
    form: Form,
    need: Need,
    doc: &'static str,
    example: &'static str,
) -> Field {
    Field { name, status: Status::Built(Row { form, need, doc, example }) }
}

/// A field of policies that `defaults` has too.
const fn inherited(field: Field) -> Field {
    let status = match field.status {
        Status::Built(row) => Status::Built(Row { need: Need::Optional("that of `defaults`"), ..row }),
        later @ Status::Later(_) => later,
    };
    Field { status, ..field }
}

const fn later(name: &'static str, remedy: &'static str) -> Field {
    Field { name, status: Status::Later(remedy) }
}

/// The words of a table that the decoder reads by.
const fn words<T, const N: usize>(table: &[(&'static str, T); N]) -> [&'static str; N] {
    let mut words = [""; N];
    let mut at = 0;
    while at < N {
        words[at] = table[at].0;
        at += 1;
    }
    words
}

const ALGORITHMS: [&str; Algorithm::ALL.len()] = {
    let mut names = [""; Algorithm::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = Algorithm::ALL[at].name();
        at += 1;
    }
    names
};

impl Place {
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> + Clone {
        self.fields.iter().map(|field| field.name)
    }

    /// The fields that can be written in this version.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&'static str, &'static Row)> + Clone {
        self.fields.iter().filter_map(|field| match &field.status {
            Status::Built(row) => Some((field.name, row)),
            Status::Later(_) => None,
        })
    }

    /// The names that can be written in this version.
    pub(super) fn built_names(&self) -> impl Iterator<Item = &'static str> + Clone {
        self.rows().map(|(name, _)| name)
    }

    /// The field of ours that a word of other limiters stands for, and what to write instead. A slip of the
    /// fingers counts, unless it is nearer to be one of ours.
    pub(super) fn foreign(&self, name: &str) -> Option<(&'static str, &'static str)> {
        let foreign = self.foreign.as_ref()?;
        let words = || foreign.words.iter().copied();
        let exact = words().any(|word| word == name);
        let slip = || nearest(name, self.names()).is_none() && nearest(name, words()).is_some();
        (exact || slip()).then_some((foreign.field, foreign.remedy))
    }

    pub(super) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// All places that can be written in this version, each before those within it, and all kinds of text.
pub(super) fn all() -> (Vec<&'static Place>, Vec<&'static Grammar>) {
    let (mut places, mut grammars) = (vec![&TOP], Vec::new());
    let mut at = 0;
    while let Some(place) = places.get(at).copied() {
        place.rows().for_each(|(_, row)| row.form.collect(&mut places, &mut grammars));
        at += 1;
    }
    (places, grammars)
}

#[cfg(test)]
mod tests;
