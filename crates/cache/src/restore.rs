//! Saving and restoring state in memory outside the cache, such as that of inodes, when an
//! operation fails.

/// A value that can be saved and restored.
pub trait Restore {
    /// The saved copy.
    type Saved;
    /// Returns a copy of the present value.
    fn save(&self) -> Self::Saved;
    /// Restores a saved value.
    fn restore(&mut self, saved: Self::Saved);
}

impl Restore for () {
    type Saved = ();
    fn save(&self) {}
    fn restore(&mut self, (): ()) {}
}

impl<R: Restore> Restore for &mut R {
    type Saved = R::Saved;
    fn save(&self) -> Self::Saved {
        (**self).save()
    }
    fn restore(&mut self, saved: Self::Saved) {
        (**self).restore(saved);
    }
}

impl<A: Restore, B: Restore> Restore for (A, B) {
    type Saved = (A::Saved, B::Saved);
    fn save(&self) -> Self::Saved {
        (self.0.save(), self.1.save())
    }
    fn restore(&mut self, saved: Self::Saved) {
        self.0.restore(saved.0);
        self.1.restore(saved.1);
    }
}

impl<A: Restore, B: Restore, C: Restore> Restore for (A, B, C) {
    type Saved = (A::Saved, B::Saved, C::Saved);
    fn save(&self) -> Self::Saved {
        (self.0.save(), self.1.save(), self.2.save())
    }
    fn restore(&mut self, saved: Self::Saved) {
        self.0.restore(saved.0);
        self.1.restore(saved.1);
        self.2.restore(saved.2);
    }
}
