//! Programs that promise to survive a crash, if the file system keeps its own promise: `SQLite` and
//! git.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};

use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use spindle_clock::Mutex;

use super::{Load, Over, Testimony};
use crate::tool::{command, failed, run};
use crate::{Failure, Result};

/// Transactions of `sqlite3` on one database: each adds rows and moves money between accounts whose
/// sum never changes.
#[derive(Debug)]
pub struct Database {
    journal: &'static str,
    synchronous: &'static str,
    /// Transactions that were acknowledged.
    committed: Mutex<u64>,
}

/// Accounts in the database.
const ACCOUNTS: u64 = 50;
const DATABASE: &str = "database";

impl Database {
    /// Returns a database with this `journal_mode` and this setting of `synchronous`.
    #[must_use]
    pub fn new(journal: &'static str, synchronous: &'static str) -> Self {
        Self { journal, synchronous, committed: Mutex::new(0) }
    }

    /// Returns the `n`th transaction, which in the end prints `n`; the first makes the tables.
    fn transaction(n: u64) -> String {
        if n == 1 {
            return format!(
                "begin immediate; create table entry(n integer, part integer, text blob); create index x on entry(text);
                 create table account(id integer primary key, sum integer);
                 with recursive i(i) as (select 1 union all select i+1 from i where i < {ACCOUNTS})
                 insert into account select i, 100 from i; insert into entry values(1, 1, ''); commit; select 1;\n"
            );
        }
        let (from, to) = (n % ACCOUNTS + 1, n * 7 % ACCOUNTS + 1);
        let parts = parts(n);
        format!(
            "begin immediate; update account set sum = sum - 1 where id = {from};
             with recursive i(i) as (select 1 union all select i+1 from i where i < {parts})
             insert into entry select {n}, i, randomblob(1 + abs(random() % 900)) from i;
             update account set sum = sum + 1 where id = {to}; commit; select {n};\n"
        )
    }
}

/// Returns the rows that the `n`th transaction adds.
fn parts(n: u64) -> u64 {
    1 + (n - 1) % 13
}

impl Load for Database {
    fn work(&self, directory: &Path, over: &Over) -> Result<()> {
        let mut sqlite = command("stdbuf");
        sqlite.args(["--output=L", "sqlite3", "-batch", "-bail"]).arg(directory.join(DATABASE));
        sqlite.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = sqlite.spawn().map_err(Failure::of("sqlite3"))?;
        let talked = self.talk(&mut child, over);
        // What it still wants to do it does no more.
        drop(child.stdin.take());
        let output = child.wait_with_output().map_err(Failure::of("sqlite3"))?;
        let fail = |error| failed(&sqlite, format!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        talked.map_err(fail)
    }

    fn testify(&self) -> Box<dyn Testimony> {
        // A journal that was removed may be back, unless its directory was synced as well; then its
        // transaction is undone.
        let kept = self.journal == "wal" || self.synchronous == "extra";
        Box::new(Committed { transactions: self.committed.lock().saturating_sub(u64::from(!kept)) })
    }
}

impl Database {
    fn talk(&self, child: &mut Child, over: &Over) -> std::io::Result<()> {
        let (Some(input), Some(output)) = (child.stdin.as_mut(), child.stdout.as_mut()) else {
            return Err(std::io::Error::other("no pipes"));
        };
        let mut answers = BufReader::new(output).lines();
        let mut answer = || answers.next().unwrap_or_else(|| Err(std::io::Error::other("it has ended")));
        writeln!(input, "pragma journal_mode={}; pragma synchronous={};", self.journal, self.synchronous)?;
        answer()?;
        for n in 1.. {
            if over.is_set() {
                break;
            }
            input.write_all(Self::transaction(n).as_bytes())?;
            if answer()? != n.to_string() {
                return Err(std::io::Error::other("an unexpected answer"));
            }
            *self.committed.lock() = n;
        }
        Ok(())
    }
}

struct Committed {
    transactions: u64,
}

impl Testimony for Committed {
    fn check(&self, directory: &Path) -> Result<u64> {
        let ask = |question: &str| {
            let mut sqlite = command("sqlite3");
            let said = run(sqlite.args(["-batch", "-bail"]).arg(directory.join(DATABASE)).arg(question))?;
            Ok(String::from_utf8_lossy(&said).trim_end().to_owned())
        };
        if self.transactions == 0 && ask("select count(*) from sqlite_schema")? == "0" {
            return Ok(0);
        }
        let state = ask("pragma integrity_check; select sum(sum), count(*) from account;")?;
        if state != format!("ok\n{}|{ACCOUNTS}", 100 * ACCOUNTS) {
            return Err(Failure::new(format!("{}: {state}", directory.display())));
        }
        let last: u64 = ask("select max(n) from entry")?.parse().map_err(Failure::of("transactions"))?;
        let rows = ask("select n, count(*), max(part) from entry group by n order by n")?;
        let expected: Vec<_> = (1..=last).map(|n| format!("{n}|{0}|{0}", parts(n))).collect();
        if rows != expected.join("\n") {
            return Err(Failure::new(format!("{}: rows of transactions:\n{rows}", directory.display())));
        }
        if last < self.transactions {
            let committed = self.transactions;
            return Err(Failure::new(format!(
                "{}: {committed} transactions were acknowledged, {last} are there",
                directory.display()
            )));
        }
        Ok(self.transactions)
    }
}

/// Commits to a git repository that syncs what it writes.
#[derive(Debug)]
pub struct Git {
    seed: u64,
    commits: Mutex<Commits>,
}

#[derive(Clone, Debug, Default)]
struct Commits {
    /// Acknowledged; the hash of the last one.
    last: Option<String>,
    number: u64,
}

/// Syncs all that it writes, and does nothing behind our back.
const SETTINGS: [&str; 10] = [
    "-c",
    "safe.directory=*",
    "-c",
    "core.fsync=all",
    "-c",
    "core.fsyncMethod=fsync",
    "-c",
    "gc.auto=0",
    "-c",
    "init.defaultBranch=main",
];
/// Each so manieth commit is followed by packing everything anew.
const PACK_EVERY: u64 = 12;

fn git(directory: &Path, words: &[&str]) -> Result<String> {
    let mut git = command("git");
    git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").current_dir(directory);
    for who in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{who}_NAME"), "load").env(format!("GIT_{who}_EMAIL"), "load@example.org");
    }
    let said = run(git.args(SETTINGS).args(words))?;
    Ok(String::from_utf8_lossy(&said).trim_end().to_owned())
}

impl Git {
    /// Contents follow from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, commits: Mutex::default() }
    }
}

impl Load for Git {
    fn work(&self, directory: &Path, over: &Over) -> Result<()> {
        let fail = |error| Failure::new(format!("a work tree of git: {error}"));
        let mut rng = SmallRng::seed_from_u64(self.seed);
        git(directory, &["init", "--quiet", "."])?;
        for number in 1.. {
            if over.is_set() {
                break;
            }
            for _ in 0..rng.random_range(1..6) {
                let mut bytes = vec![0; rng.random_range(1..30_000)];
                rng.fill_bytes(&mut bytes);
                let below = directory.join(format!("part-{}", rng.random_range(0..4)));
                fs::create_dir_all(&below).map_err(fail)?;
                fs::write(below.join(rng.random_range(0..20).to_string()), bytes).map_err(fail)?;
            }
            git(directory, &["add", "--all"])?;
            git(directory, &["commit", "--quiet", "--message", &number.to_string()])?;
            if number % PACK_EVERY == 0 {
                git(directory, &["repack", "-a", "-d", "-q"])?;
            }
            let last = git(directory, &["rev-parse", "HEAD"])?;
            // git syncs the new reference, and not the directory in which it takes the place of the
            // old one.
            File::open(directory.join(".git/refs/heads")).and_then(|heads| heads.sync_all()).map_err(fail)?;
            *self.commits.lock() = Commits { last: Some(last), number };
        }
        Ok(())
    }

    fn testify(&self) -> Box<dyn Testimony> {
        Box::new(self.commits.lock().clone())
    }
}

/// Removes what a killed git has left locked, which is its users' business after any crash.
fn unlock(directory: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            unlock(&entry.path())?;
        } else if entry.path().extension().is_some_and(|extension| extension == "lock") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

impl Testimony for Commits {
    fn check(&self, directory: &Path) -> Result<u64> {
        let Some(last) = &self.last else { return Ok(0) };
        unlock(&directory.join(".git")).map_err(Failure::of("locks of git"))?;
        git(directory, &["fsck", "--full", "--strict", "--no-progress"])?;
        git(directory, &["merge-base", "--is-ancestor", last, "HEAD"])?;
        git(directory, &["checkout", "--quiet", "--force", "HEAD"])?;
        let changed = git(directory, &["status", "--porcelain", "--untracked-files=no"])?;
        if changed.is_empty() {
            Ok(self.number)
        } else {
            Err(Failure::new(format!("git status:\n{changed}")))
        }
    }
}
