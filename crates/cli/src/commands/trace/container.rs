//! Finds the cgroup of a container by its name or ID.
//!
//! The one idea: Docker, Podman, containerd and CRI-O put the ID of a container into the name of
//! its cgroup, so only the ID that belongs to a name has to be found, in the files where Docker and
//! Podman keep it. LXC and systemd-nspawn put the name itself there.

use crate::error::{Context, Failure, Result};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Shortest beginning of an ID that stands for it, as these programs print it.
const SHORT_ID: usize = 12;
/// Number of directories of cgroups above one another that are searched.
const DEPTH: usize = 12;

/// Returns the cgroup of the running container with this name, ID, or beginning of an ID.
pub fn cgroup(name: &str) -> Result<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").context("/proc/self/mounts")?;
    let unified = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let place = fields.next()?;
        (fields.next() == Some("cgroup2")).then(|| PathBuf::from(place))
    });
    let unified = unified.ok_or_else(|| Failure::new("the unified cgroup hierarchy is not mounted"))?;
    find(name, &unified, Path::new("/"))
}

/// Finds the cgroup below `cgroups`, with the files of Docker and Podman in the system at `root`.
fn find(name: &str, cgroups: &Path, root: &Path) -> Result<PathBuf> {
    let mut ids = docker_ids(name, root);
    ids.extend(podman_ids(name, root));
    if name.len() >= SHORT_ID && name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        ids.insert(name.to_owned());
    }
    let mut found = Vec::new();
    search(cgroups, DEPTH, &|directory| is_of(directory, name, &ids), &mut found);
    found.sort();
    match &found[..] {
        [one] => Ok(one.clone()),
        [] => Err(Failure::new(format!(
            "no running container is called {name}: no cgroup in {} belongs to one of Docker, Podman, containerd, \
             CRI-O, LXC or systemd-nspawn with this name or ID; for a directory write its path",
            cgroups.display()
        ))),
        [first, second, ..] => Err(Failure::new(format!(
            "{name} may be {} or {}; write the path of one",
            first.display(),
            second.display()
        ))),
    }
}

/// Returns true if a cgroup with this name is that of the container.
fn is_of(directory: &str, name: &str, ids: &BTreeSet<String>) -> bool {
    let scope = directory.strip_suffix(".scope").unwrap_or(directory);
    let by_id = ["docker-", "libpod-", "cri-containerd-", "crio-", ""];
    let id = by_id.iter().find_map(|prefix| scope.strip_prefix(prefix)).unwrap_or(scope);
    let is_id = id.len() >= SHORT_ID && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let nspawn = directory.strip_prefix("systemd-nspawn@").and_then(|rest| rest.strip_suffix(".service"));
    (is_id && ids.iter().any(|wanted| id.starts_with(wanted.as_str())))
        || directory.strip_prefix("lxc.payload.") == Some(name)
        || scope.strip_prefix("machine-") == Some(name)
        || nspawn == Some(name)
}

/// Collects the directories below `directory` that are wanted, but none below another one.
fn search(directory: &Path, depth: usize, is_wanted: &dyn Fn(&str) -> bool, found: &mut Vec<PathBuf>) {
    // A cgroup may vanish while it is looked at.
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry.file_name().to_str().is_some_and(is_wanted) {
            found.push(entry.path());
        } else if depth > 0 {
            search(&entry.path(), depth - 1, is_wanted, found);
        }
    }
}

/// Returns the IDs of the containers that Docker calls so.
fn docker_ids(name: &str, root: &Path) -> BTreeSet<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Config {
        name: String,
    }
    let containers =
        std::fs::read_dir(root.join("var/lib/docker/containers")).into_iter().flatten().flatten();
    let is_called = |container: &Path| {
        let config = std::fs::read(container.join("config.v2.json")).ok()?;
        let config: Config = serde_json::from_slice(&config).ok()?;
        (config.name.trim_start_matches('/') == name).then_some(())
    };
    let mut ids = BTreeSet::new();
    for container in containers {
        if is_called(&container.path()).is_some() {
            ids.extend(container.file_name().into_string());
        }
    }
    ids
}

/// Returns the IDs of the containers that root's Podman calls so.
fn podman_ids(name: &str, root: &Path) -> BTreeSet<String> {
    #[derive(Deserialize)]
    struct Container {
        id: String,
        #[serde(default)]
        names: Vec<String>,
    }
    let list = root.join("var/lib/containers/storage/overlay-containers/containers.json");
    let list = std::fs::read(list).ok().and_then(|list| serde_json::from_slice::<Vec<Container>>(&list).ok());
    let called = list.unwrap_or_default().into_iter();
    called
        .filter(|container| container.names.iter().any(|other| other == name))
        .map(|found| found.id)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};

    /// Promise: a container is found by its name and by its ID, as each program lays out its
    /// cgroups; one that does not run, or that several cgroups may be, is refused.
    #[test]
    fn containers_are_found() {
        let system = tempfile::tempdir().unwrap();
        let root = system.path();
        let id = |digit: char| digit.to_string().repeat(64);
        let (web, db, pod) = (id('a'), id('b'), id('c'));
        let docker = root.join("var/lib/docker/containers");
        for (id, name) in [(&web, "web"), (&db, "gone")] {
            create_dir_all(docker.join(id)).unwrap();
            write(docker.join(id).join("config.v2.json"), format!(r#"{{"ID":"{id}","Name":"/{name}"}}"#))
                .unwrap();
        }
        let podman = root.join("var/lib/containers/storage/overlay-containers");
        create_dir_all(&podman).unwrap();
        write(podman.join("containers.json"), format!(r#"[{{"id":"{pod}","names":["db"]}}]"#)).unwrap();
        let cgroups = root.join("cgroup");
        let scopes = [
            format!("system.slice/docker-{web}.scope"),
            format!("machine.slice/libpod-{pod}.scope/container"),
            format!("machine.slice/libpod-conmon-{pod}.scope"),
            format!("kubepods.slice/pod.slice/cri-containerd-{}.scope", id('d')),
            "lxc.payload.old/init.scope".into(),
            "machine.slice/machine-bsd.scope".into(),
        ];
        for scope in &scopes {
            create_dir_all(cgroups.join(scope)).unwrap();
        }
        let find = |name: &str| find(name, &cgroups, root);
        for (name, scope) in [
            ("web", &scopes[0]),
            (&web[..12], &scopes[0]),
            ("db", &format!("machine.slice/libpod-{pod}.scope")),
            (&id('d'), &scopes[3]),
            ("old", &"lxc.payload.old".into()),
            ("bsd", &scopes[5]),
        ] {
            assert_eq!(find(name).unwrap(), cgroups.join(scope), "{name}");
        }
        for name in ["gone", "we", "aaaa", &id('e')] {
            assert!(find(name).unwrap_err().to_string().contains("no running container"), "{name}");
        }
        create_dir_all(cgroups.join("other/lxc.payload.old")).unwrap();
        assert!(find("old").unwrap_err().to_string().contains("may be"));
    }
}
