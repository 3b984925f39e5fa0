//! Turns panics of the Parquet library into errors.
//!
//! Its decoders take for granted much of what a damaged file may have otherwise, in more places
//! than could be checked before. They work on memory of their own, which an error drops.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static IS_CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Returns what `work` returns, or the message of its panic, which is not printed.
pub(super) fn contained<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_CONTAINED.get() {
                usual(panic);
            }
        }));
    });
    let was = IS_CONTAINED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_CONTAINED.set(was);
    done.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
        format!("it is damaged ({text})")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a panic becomes an error with its message, and other work is not affected.
    #[test]
    fn panics_become_errors() {
        let bad = contained(|| [1, 2, 3].get(7).expect("there is a seventh"));
        assert_eq!(bad.unwrap_err(), "it is damaged (there is a seventh)");
        assert_eq!(contained(|| contained(|| panic!("inner")).is_err()), Ok(true));
        assert_eq!(contained(|| 5), Ok(5));
        assert!(!IS_CONTAINED.get());
    }
}
