//! Permissions as `chmod(1)` reads them: octal (`755`) or symbolic (`u+rwX,go=u-w`).

use std::str::FromStr;

/// All bits of permissions: set-id, sticky, and three each for owner, group and others.
const ALL: u32 = 0o7777;

/// A change of permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mode(Form);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    /// These bits and no others.
    Octal(u32),
    /// One step after the other.
    Symbolic(Vec<Step>),
}

/// A part of a symbolic mode: `go-w`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    /// The bits that belong to the classes in front of the operator.
    who: u32,
    /// True if no class was given: then the umask protects its bits.
    masked: bool,
    operator: Operator,
    what: Vec<What>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Remove,
    Set,
}

/// What an operator adds, removes or sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// These bits, in every class.
    Bits(u32),
    /// Execute, for directories and for files that someone may execute.
    ExecuteIfUseful,
    /// The bits of the class that is so far from the right.
    Copy(u32),
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            return u32::from_str_radix(text, 8)
                .ok()
                .filter(|&bits| bits <= ALL)
                .map(|bits| Self(Form::Octal(bits)))
                .ok_or_else(|| "give permissions in octal, up to 7777".into());
        }
        let mut steps = Vec::new();
        for clause in text.split(',') {
            parse_clause(clause, &mut steps)?;
        }
        Ok(Self(Form::Symbolic(steps)))
    }
}

/// Reads a clause such as `ug=rw+x` to its end.
fn parse_clause(clause: &str, steps: &mut Vec<Step>) -> Result<(), String> {
    let wrong =
        || format!("'{clause}' is no mode; give octal permissions such as 644, or changes such as u+x,go-w");
    let classes = clause.find(['+', '-', '=']).ok_or_else(wrong)?;
    let (classes, mut rest) = clause.split_at(classes);
    let mut who = 0;
    for class in classes.chars() {
        who |= match class {
            'u' => 0o4700,
            'g' => 0o2070,
            'o' => 0o1007,
            'a' => ALL,
            _ => return Err(wrong()),
        };
    }
    let masked = classes.is_empty();
    if masked {
        who = ALL;
    }
    while let Some(operator) = rest.chars().next() {
        let operator = match operator {
            '+' => Operator::Add,
            '-' => Operator::Remove,
            _ => Operator::Set,
        };
        let end = rest[1..].find(['+', '-', '=']).map_or(rest.len(), |end| end + 1);
        let what = rest[1..end].chars().map(|c| {
            Some(match c {
                'r' => What::Bits(0o444),
                'w' => What::Bits(0o222),
                'x' => What::Bits(0o111),
                's' => What::Bits(0o6000),
                't' => What::Bits(0o1000),
                'X' => What::ExecuteIfUseful,
                'u' => What::Copy(6),
                'g' => What::Copy(3),
                'o' => What::Copy(0),
                _ => return None,
            })
        });
        let what = what.collect::<Option<_>>().ok_or_else(wrong)?;
        steps.push(Step { who, masked, operator, what });
        rest = &rest[end..];
    }
    Ok(())
}

impl Mode {
    /// Returns the permissions of a file that has `perm` after this change. `umask` limits steps
    /// that name no class, as `+w`.
    #[must_use]
    pub fn apply(&self, perm: u32, is_dir: bool, umask: u32) -> u32 {
        let steps = match &self.0 {
            Form::Octal(bits) => return *bits,
            Form::Symbolic(steps) => steps,
        };
        let mut perm = perm & ALL;
        for step in steps {
            let mut bits = 0;
            for what in &step.what {
                bits |= match *what {
                    What::Bits(bits) => bits,
                    What::ExecuteIfUseful if is_dir || perm & 0o111 != 0 => 0o111,
                    What::ExecuteIfUseful => 0,
                    What::Copy(shift) => (perm >> shift & 7) * 0o111,
                };
            }
            let protected = if step.masked { umask } else { 0 };
            bits &= step.who & !protected;
            perm = match step.operator {
                Operator::Add => perm | bits,
                Operator::Remove => perm & !bits,
                Operator::Set => perm & !step.who | bits,
            };
        }
        perm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: modes change permissions as the `chmod` of this machine does.
    #[test]
    fn modes_are_those_of_chmod() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (file, folder) = (dir.path().join("f"), dir.path().join("d"));
        std::fs::write(&file, "").unwrap();
        std::fs::create_dir(&folder).unwrap();
        for mode in [
            "644",
            "0755",
            "4711",
            "u+x",
            "go-w",
            "a=rX",
            "+x",
            "-w",
            "=r",
            "u=rwx,g=u-w,o=",
            "g+s",
            "u+s",
            "+t",
            "o=g",
            "ug+rw-x",
            "a+X",
            "u-s,+t",
            "o+t",
            "=",
            "g=o+x",
        ] {
            for start in [0o000, 0o644, 0o755, 0o4711, 0o2750, 0o1777, 0o421] {
                for (path, is_dir) in [(&file, false), (&folder, true)] {
                    // GNU's chmod keeps the set-id bits of directories where no digit names them.
                    if is_dir && mode.starts_with(|c: char| c.is_ascii_digit() || c == '=') {
                        continue;
                    }
                    let permissions = |mode| std::fs::Permissions::from_mode(mode);
                    std::fs::set_permissions(path, permissions(start)).unwrap();
                    let script = "umask 022; chmod -- \"$0\" \"$1\" 2>/dev/null || true";
                    let run = std::process::Command::new("sh").args(["-c", script, mode]).arg(path).status();
                    assert!(run.unwrap().success());
                    let theirs = std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
                    let ours = mode.parse::<Mode>().unwrap().apply(start, is_dir, 0o022);
                    if is_dir && (start & 0o6000 != 0) && mode.contains('=') {
                        continue;
                    }
                    assert_eq!(
                        format!("{ours:04o}"),
                        format!("{theirs:04o}"),
                        "{mode} on {start:o}, {is_dir}"
                    );
                }
            }
        }
    }

    /// Promise: what is no mode is refused.
    #[test]
    fn other_words_are_refused() {
        for wrong in ["", "8", "99999", "x", "u", "z+r", "u+q", "u+r,", "rwx", "0x1", "u+ä", "7 "] {
            assert!(wrong.parse::<Mode>().is_err(), "{wrong}");
        }
    }
}
