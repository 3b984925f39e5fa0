//! Names of users and groups, as this machine has them.

use spindle::quota::Kind;
use std::collections::HashMap;

/// The names of all users or all groups.
pub struct Names {
    by_id: HashMap<u32, String>,
    kind: Kind,
}

impl Names {
    /// Reads the names of this machine.
    pub fn of(kind: Kind) -> Self {
        let file = match kind {
            Kind::User => "/etc/passwd",
            Kind::Group => "/etc/group",
        };
        // Without names numbers do.
        let text = String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).into_owned();
        let mut by_id = HashMap::new();
        for line in text.lines() {
            let mut fields = line.split(':');
            if let (Some(name), Some(Ok(id))) = (fields.next(), fields.nth(1).map(str::parse)) {
                // Of several names the first is the usual one.
                by_id.entry(id).or_insert_with(|| name.to_owned());
            }
        }
        Self { by_id, kind }
    }

    /// Returns the name of an id, or `#` and its number.
    pub fn name(&self, id: u32) -> String {
        self.by_id.get(&id).cloned().unwrap_or_else(|| format!("#{id}"))
    }

    /// Returns the id that a name or a number means.
    ///
    /// # Errors
    /// A message that says what to give.
    pub fn id(&self, text: &str) -> Result<u32, String> {
        let named = self.by_id.iter().find(|(_, name)| *name == text).map(|(&id, _)| id);
        let number = || text.strip_prefix('#').unwrap_or(text).parse().ok();
        named.or_else(number).ok_or_else(|| {
            format!("there is no {} {text} on this machine; give the number", self.kind.word())
        })
    }
}
