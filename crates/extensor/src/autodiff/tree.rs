//! Trees: values made of tensors, which transformations look into.

use crate::{Result, Tensor};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::BuildHasher;

/// Something made of tensors: a tensor, a tuple, an array, a vector, an option or a map of these,
/// or any struct made of them with `#[derive(Tree)]`.
///
/// Numbers, strings and `bool` are trees without leaves, which stay as they are.
pub trait Tree: Sized {
    /// Calls `f` with every leaf and where it is, in an order that depends on the structure alone.
    fn visit<'a>(
        &'a self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &'a Tensor) -> Result<()>,
    ) -> Result<()>;

    /// The same structure with every leaf replaced by what `f` makes of it, in the order of
    /// [`visit`](Tree::visit).
    fn map(
        &self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &Tensor) -> Result<Tensor>,
    ) -> Result<Self>;

    /// Calls `f` with every leaf, which it may replace, in the order of [`visit`](Tree::visit).
    fn visit_mut(
        &mut self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &mut Tensor) -> Result<()>,
    ) -> Result<()>;

    /// Tells `f` what the tree is made of, the outermost first, for whoever prints it (see
    /// [`summary`](crate::nn::summary)): the leaves, and with `#[derive(Tree)]` the names of types and
    /// variants and the numbers among their fields.
    fn describe(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, Item<'_>)) {
        // Describing cannot fail.
        let _ = self.visit(path, &mut |path, x| {
            f(path, Item::Leaf(x));
            Ok(())
        });
    }

    /// Calls `f` with every number that is neither a tensor nor part of the tree's structure, as a small
    /// tensor: a [`Key`](crate::Key), how many steps an optimiser has made. A function that is
    /// [compiled](crate::compile::compile) takes them anew at each call. A type that is none of these and
    /// contains none has nothing to do.
    fn numbers(&self, f: &mut dyn FnMut(Tensor)) {
        let _ = f;
    }

    /// Replaces the [numbers](Tree::numbers), in their order, by what `f` returns.
    fn set_numbers(&mut self, f: &mut dyn FnMut() -> Result<Tensor>) -> Result<()> {
        let _ = f;
        Ok(())
    }
}

/// Something that a tree is made of: what [`Tree::describe`] tells.
#[derive(Clone, Debug)]
pub enum Item<'a> {
    /// A struct or a variant of an enum, by its name; what follows below its path belongs to it.
    Node(&'static str),
    /// A tensor.
    Leaf(&'a Tensor),
    /// A number or another value that is no tensor.
    Setting(String),
}

/// Where a leaf is in a tree; prints as `layers.0.weight`.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    part: Part<'a>,
    buffer: bool,
}

#[derive(Clone, Copy, Debug)]
enum Part<'a> {
    Root,
    Name(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    /// The tree itself.
    pub const ROOT: Path<'static> = Path { parent: None, part: Part::Root, buffer: false };

    /// The field of this name.
    pub fn field(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), part: Part::Name(name), buffer: self.buffer }
    }

    /// The item at this index.
    pub fn item(&'a self, index: usize) -> Path<'a> {
        Path { parent: Some(self), part: Part::Index(index), buffer: self.buffer }
    }

    /// The names and numbers that lead here from the tree's root.
    pub fn parts(&self) -> Vec<String> {
        let mut parts = self.parent.map_or_else(Vec::new, Path::parts);
        match self.part {
            Part::Root => {}
            Part::Name(name) => parts.push(name.to_string()),
            Part::Index(index) => parts.push(index.to_string()),
        }
        parts
    }

    /// Whether this is the tree itself: the tree is one tensor.
    pub fn is_root(&self) -> bool {
        matches!(self.part, Part::Root)
    }

    /// The same path, marked as that of buffers.
    pub fn buffer(self) -> Path<'a> {
        Path { buffer: true, ..self }
    }

    /// Whether the leaves here are buffers: tensors that are kept and saved with a model but are
    /// not parameters of it, such as running statistics. Nothing is differentiated by them, their
    /// gradient is zero, and optimisers leave them alone. A field is marked so with
    /// `#[tree(buffer)]`.
    pub fn is_buffer(&self) -> bool {
        self.buffer
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent
            && !matches!(parent.part, Part::Root)
        {
            write!(f, "{parent}.")?;
        }
        match self.part {
            Part::Root => f.write_str("the argument"),
            Part::Name(name) => f.write_str(name),
            Part::Index(index) => write!(f, "{index}"),
        }
    }
}

/// The leaves of a tree, in order.
pub fn leaves<T: Tree>(tree: &T) -> Vec<&Tensor> {
    let mut found = Vec::new();
    // Collecting cannot fail.
    let _ = tree.visit(&Path::ROOT, &mut |_, x| {
        found.push(x);
        Ok(())
    });
    found
}

/// The leaves of a tree with their names, in order.
///
/// ```
/// use extensor::{autodiff::named_leaves, tensor};
/// let model = vec![(tensor(1.0), tensor(2.0)), (tensor(3.0), tensor(4.0))];
/// let names: Vec<String> = named_leaves(&model).into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["0.0", "0.1", "1.0", "1.1"]);
/// ```
pub fn named_leaves<T: Tree>(tree: &T) -> Vec<(String, &Tensor)> {
    let mut found = Vec::new();
    let _ = tree.visit(&Path::ROOT, &mut |path, x| {
        found.push((path.to_string(), x));
        Ok(())
    });
    found
}

/// The same structure with other leaves.
pub fn map<T: Tree>(tree: &T, mut f: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<T> {
    tree.map(&Path::ROOT, &mut |_, x| f(x))
}

/// The leaves of a tree that are parameters: all but [buffers](Path::is_buffer).
pub fn parameters<T: Tree>(tree: &T) -> Vec<&Tensor> {
    let mut found = Vec::new();
    let _ = tree.visit(&Path::ROOT, &mut |path, x| {
        if !path.is_buffer() {
            found.push(x);
        }
        Ok(())
    });
    found
}

/// The same structure with other parameters; buffers stay.
pub fn map_parameters<T: Tree>(
    tree: &T,
    mut f: impl FnMut(&Tensor) -> Result<Tensor>,
) -> Result<T> {
    tree.map(&Path::ROOT, &mut |path, x| if path.is_buffer() { Ok(x.clone()) } else { f(x) })
}

/// The same structure with leaves made of those of two trees of that structure.
pub fn zip_map<T: Tree>(
    a: &T,
    b: &T,
    mut f: impl FnMut(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<T> {
    let others = leaves(b);
    let mut others = others.into_iter();
    let mut missing = false;
    let made = a.map(&Path::ROOT, &mut |_, x| match others.next() {
        Some(y) => f(x, y),
        None => {
            missing = true;
            Ok(x.clone())
        }
    })?;
    if missing || others.next().is_some() {
        let [expected, got] = [a, b].map(|tree| format!("{} leaves", leaves(tree).len()));
        return Err(crate::Error::Inputs { op: "zip_map", expected, got });
    }
    Ok(made)
}

impl Tree for Tensor {
    fn visit<'a>(
        &'a self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &'a Tensor) -> Result<()>,
    ) -> Result<()> {
        f(path, self)
    }
    fn map(
        &self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &Tensor) -> Result<Tensor>,
    ) -> Result<Self> {
        f(path, self)
    }
    fn visit_mut(
        &mut self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &mut Tensor) -> Result<()>,
    ) -> Result<()> {
        f(path, self)
    }
}

/// Types that are trees without leaves, with what there is to say of one, if anything.
macro_rules! no_leaves {
    ($setting:expr; $($t:ty),*) => {$(
        impl $crate::Tree for $t {
            fn describe(&self, path: &$crate::autodiff::Path<'_>, f: &mut dyn FnMut(&$crate::autodiff::Path<'_>, $crate::autodiff::Item<'_>)) {
                let setting: fn(&Self) -> Option<String> = $setting;
                if let Some(text) = setting(self) {
                    f(path, $crate::autodiff::Item::Setting(text));
                }
            }
            fn visit<'a>(
                &'a self,
                _: &$crate::autodiff::Path<'_>,
                _: &mut dyn FnMut(&$crate::autodiff::Path<'_>, &'a $crate::Tensor) -> $crate::Result<()>,
            ) -> $crate::Result<()> {
                Ok(())
            }
            fn map(
                &self,
                _: &$crate::autodiff::Path<'_>,
                _: &mut dyn FnMut(&$crate::autodiff::Path<'_>, &$crate::Tensor) -> $crate::Result<$crate::Tensor>,
            ) -> $crate::Result<Self> {
                Ok(self.clone())
            }
            fn visit_mut(
                &mut self,
                _: &$crate::autodiff::Path<'_>,
                _: &mut dyn FnMut(&$crate::autodiff::Path<'_>, &mut $crate::Tensor) -> $crate::Result<()>,
            ) -> $crate::Result<()> {
                Ok(())
            }
        }
    )*};
}
no_leaves!(
    |x| Some(x.to_string());
    bool,
    i8,
    i16,
    i32,
    i64,
    isize,
    u8,
    u16,
    u32,
    u64,
    usize,
    f32,
    f64,
    String,
    &'static str
);
no_leaves!(|x| Some(x.to_string()); crate::DType, crate::Shape);
no_leaves!(|_| None; ());
pub(crate) use no_leaves;

macro_rules! tuples {
    ($($name:ident $index:tt),*) => {
        impl<$($name: Tree),*> Tree for ($($name,)*) {
            fn visit<'a>(
                &'a self,
                path: &Path<'_>,
                f: &mut dyn FnMut(&Path<'_>, &'a Tensor) -> Result<()>,
            ) -> Result<()> {
                $(self.$index.visit(&path.item($index), f)?;)*
                Ok(())
            }
            fn map(
                &self,
                path: &Path<'_>,
                f: &mut dyn FnMut(&Path<'_>, &Tensor) -> Result<Tensor>,
            ) -> Result<Self> {
                Ok(($(self.$index.map(&path.item($index), f)?,)*))
            }
            fn visit_mut(
                &mut self,
                path: &Path<'_>,
                f: &mut dyn FnMut(&Path<'_>, &mut Tensor) -> Result<()>,
            ) -> Result<()> {
                $(self.$index.visit_mut(&path.item($index), f)?;)*
                Ok(())
            }
            fn describe(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, Item<'_>)) {
                $(self.$index.describe(&path.item($index), f);)*
            }
            fn numbers(&self, f: &mut dyn FnMut(Tensor)) {
                $(self.$index.numbers(f);)*
            }
            fn set_numbers(&mut self, f: &mut dyn FnMut() -> Result<Tensor>) -> Result<()> {
                $(self.$index.set_numbers(f)?;)*
                Ok(())
            }
        }
    };
}
tuples!(A 0);
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, E 4);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

impl<T: Tree> Tree for Vec<T> {
    fn visit<'a>(
        &'a self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &'a Tensor) -> Result<()>,
    ) -> Result<()> {
        let mut items = self.iter().enumerate();
        items.try_for_each(|(i, item)| item.visit(&path.item(i), f))
    }
    fn map(
        &self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &Tensor) -> Result<Tensor>,
    ) -> Result<Self> {
        self.iter().enumerate().map(|(i, item)| item.map(&path.item(i), f)).collect()
    }
    fn visit_mut(
        &mut self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &mut Tensor) -> Result<()>,
    ) -> Result<()> {
        let mut items = self.iter_mut().enumerate();
        items.try_for_each(|(i, item)| item.visit_mut(&path.item(i), f))
    }
    fn describe(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, Item<'_>)) {
        self.iter().enumerate().for_each(|(i, item)| item.describe(&path.item(i), f));
    }
    fn numbers(&self, f: &mut dyn FnMut(Tensor)) {
        self.iter().for_each(|item| item.numbers(f));
    }
    fn set_numbers(&mut self, f: &mut dyn FnMut() -> Result<Tensor>) -> Result<()> {
        self.iter_mut().try_for_each(|item| item.set_numbers(f))
    }
}

impl<T: Tree, const N: usize> Tree for [T; N] {
    fn visit<'a>(
        &'a self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &'a Tensor) -> Result<()>,
    ) -> Result<()> {
        let mut items = self.iter().enumerate();
        items.try_for_each(|(i, item)| item.visit(&path.item(i), f))
    }
    fn map(
        &self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &Tensor) -> Result<Tensor>,
    ) -> Result<Self> {
        let mut made = Vec::with_capacity(N);
        for (i, item) in self.iter().enumerate() {
            made.push(item.map(&path.item(i), f)?);
        }
        Ok(made.try_into().unwrap_or_else(|_| unreachable!("as many items as there were")))
    }
    fn visit_mut(
        &mut self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &mut Tensor) -> Result<()>,
    ) -> Result<()> {
        let mut items = self.iter_mut().enumerate();
        items.try_for_each(|(i, item)| item.visit_mut(&path.item(i), f))
    }
    fn describe(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, Item<'_>)) {
        self.iter().enumerate().for_each(|(i, item)| item.describe(&path.item(i), f));
    }
    fn numbers(&self, f: &mut dyn FnMut(Tensor)) {
        self.iter().for_each(|item| item.numbers(f));
    }
    fn set_numbers(&mut self, f: &mut dyn FnMut() -> Result<Tensor>) -> Result<()> {
        self.iter_mut().try_for_each(|item| item.set_numbers(f))
    }
}

impl<T: Tree> Tree for Option<T> {
    fn visit<'a>(
        &'a self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &'a Tensor) -> Result<()>,
    ) -> Result<()> {
        self.iter().try_for_each(|item| item.visit(path, f))
    }
    fn map(
        &self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &Tensor) -> Result<Tensor>,
    ) -> Result<Self> {
        self.as_ref().map(|item| item.map(path, f)).transpose()
    }
    fn visit_mut(
        &mut self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &mut Tensor) -> Result<()>,
    ) -> Result<()> {
        self.iter_mut().try_for_each(|item| item.visit_mut(path, f))
    }
    fn describe(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, Item<'_>)) {
        self.iter().for_each(|item| item.describe(path, f));
    }
    fn numbers(&self, f: &mut dyn FnMut(Tensor)) {
        self.iter().for_each(|item| item.numbers(f));
    }
    fn set_numbers(&mut self, f: &mut dyn FnMut() -> Result<Tensor>) -> Result<()> {
        self.iter_mut().try_for_each(|item| item.set_numbers(f))
    }
}

impl<T: Tree> Tree for Box<T> {
    fn visit<'a>(
        &'a self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &'a Tensor) -> Result<()>,
    ) -> Result<()> {
        (**self).visit(path, f)
    }
    fn map(
        &self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &Tensor) -> Result<Tensor>,
    ) -> Result<Self> {
        Ok(Box::new((**self).map(path, f)?))
    }
    fn visit_mut(
        &mut self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &mut Tensor) -> Result<()>,
    ) -> Result<()> {
        (**self).visit_mut(path, f)
    }
    fn describe(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, Item<'_>)) {
        (**self).describe(path, f);
    }
    fn numbers(&self, f: &mut dyn FnMut(Tensor)) {
        (**self).numbers(f);
    }
    fn set_numbers(&mut self, f: &mut dyn FnMut() -> Result<Tensor>) -> Result<()> {
        (**self).set_numbers(f)
    }
}

impl<T: Tree> Tree for BTreeMap<String, T> {
    fn visit<'a>(
        &'a self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &'a Tensor) -> Result<()>,
    ) -> Result<()> {
        self.iter().try_for_each(|(name, item)| item.visit(&path.field(name), f))
    }
    fn map(
        &self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &Tensor) -> Result<Tensor>,
    ) -> Result<Self> {
        let mut made = BTreeMap::new();
        for (name, item) in self {
            made.insert(name.clone(), item.map(&path.field(name), f)?);
        }
        Ok(made)
    }
    fn visit_mut(
        &mut self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &mut Tensor) -> Result<()>,
    ) -> Result<()> {
        self.iter_mut().try_for_each(|(name, item)| item.visit_mut(&path.field(name), f))
    }
    fn describe(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, Item<'_>)) {
        self.iter().for_each(|(name, item)| item.describe(&path.field(name), f));
    }
    fn numbers(&self, f: &mut dyn FnMut(Tensor)) {
        self.values().for_each(|item| item.numbers(f));
    }
    fn set_numbers(&mut self, f: &mut dyn FnMut() -> Result<Tensor>) -> Result<()> {
        self.values_mut().try_for_each(|item| item.set_numbers(f))
    }
}

/// In the order of the names.
impl<T: Tree, S: BuildHasher + Default> Tree for HashMap<String, T, S> {
    fn visit<'a>(
        &'a self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &'a Tensor) -> Result<()>,
    ) -> Result<()> {
        let mut items: Vec<_> = self.iter().collect();
        items.sort_by_key(|(name, _)| *name);
        items.into_iter().try_for_each(|(name, item)| item.visit(&path.field(name), f))
    }
    fn map(
        &self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &Tensor) -> Result<Tensor>,
    ) -> Result<Self> {
        let mut items: Vec<_> = self.iter().collect();
        items.sort_by_key(|(name, _)| *name);
        let mut made = HashMap::default();
        for (name, item) in items {
            made.insert(name.clone(), item.map(&path.field(name), f)?);
        }
        Ok(made)
    }
    fn visit_mut(
        &mut self,
        path: &Path<'_>,
        f: &mut dyn FnMut(&Path<'_>, &mut Tensor) -> Result<()>,
    ) -> Result<()> {
        let mut items: Vec<_> = self.iter_mut().collect();
        items.sort_by(|a, b| a.0.cmp(b.0));
        items.into_iter().try_for_each(|(name, item)| item.visit_mut(&path.field(name), f))
    }
    fn describe(&self, path: &Path<'_>, f: &mut dyn FnMut(&Path<'_>, Item<'_>)) {
        let mut names: Vec<&String> = self.keys().collect();
        names.sort();
        names.into_iter().for_each(|name| self[name].describe(&path.field(name), f));
    }
    fn numbers(&self, f: &mut dyn FnMut(Tensor)) {
        let mut items: Vec<_> = self.iter().collect();
        items.sort_by_key(|(name, _)| *name);
        items.into_iter().for_each(|(_, item)| item.numbers(f));
    }
    fn set_numbers(&mut self, f: &mut dyn FnMut() -> Result<Tensor>) -> Result<()> {
        let mut items: Vec<_> = self.iter_mut().collect();
        items.sort_by(|a, b| a.0.cmp(b.0));
        items.into_iter().try_for_each(|(_, item)| item.set_numbers(f))
    }
}
