//! What an operation changes in memory besides the cache, and how it becomes what it was when the
//! operation fails: the states of inodes.

/// A value that can be kept and put back.
pub trait Restore {
    /// What is kept of it.
    type Saved;
    /// Keeps what it is.
    fn save(&self) -> Self::Saved;
    /// Makes it what it was.
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
