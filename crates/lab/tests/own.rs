//! Experiments on disks and hosts of one's own.

use spindle_lab::{Experiment, Outcome, Setting, Silent, all, find};

fn setting(disk: Option<&str>, host: Option<&str>) -> Setting {
    Setting { disk: disk.map(str::to_owned), host: host.map(str::to_owned) }
}

/// Returns an experiment of a second, and its outcome.
fn quick(setting: &Setting) -> (&'static Experiment, Outcome) {
    let experiment = find("cluster-cpu").unwrap();
    (experiment, experiment.run(setting, &Silent).unwrap())
}

/// Promise: another disk gives other figures, beside which the paper's stand without a verdict;
/// nothing that is said of the paper's machine is repeated, and the text names what was used.
#[test]
fn another_disk() {
    let (_, papers) = quick(&Setting::default());
    let nvme = setting(Some("nvme"), None);
    let (experiment, found) = quick(&nvme);
    let text = experiment.text(&nvme, &found);
    let ours = |outcome: &Outcome| {
        let json = serde_json::to_value(outcome).unwrap();
        let rate = json["tables"][0]["rows"][0]["cells"][2].as_f64().unwrap();
        (json["tables"][0]["rows"][0]["cells"][1]["paper"].as_f64(), rate)
    };
    let ((paper, before), (same, now)) = (ours(&papers), ours(&found));
    assert!(paper == Some(2.6) && same == paper && now > 1.2 * before, "{text}");
    assert_eq!(found.comparisons().count(), 0);
    assert!(found.findings.is_empty());
    let json = serde_json::to_string(&found).unwrap();
    for gone in ["tolerance", "evidence", "note"] {
        assert!(!json.contains(gone), "{json}");
    }
    for gone in ["SPARCstation 1", "within tolerance", "rotational delay 4", "blocks, rotational"] {
        assert!(!text.contains(gone), "{text}");
    }
    assert!(text.contains("machine: disk nvme, host sparcstation-1, in place of the paper's"), "{text}");
}

/// Promise: the paper's machine, named or described in files, gives the paper's figures.
#[test]
fn the_same_machine() {
    let (_, papers) = quick(&Setting::default());
    let expected = Outcome { findings: Vec::new(), ..papers.for_reference() };
    let (_, named) = quick(&setting(Some("ibm-0661"), Some("sparcstation-1")));
    assert_eq!(named, expected);
    let file = |name: &str| format!("{}/../sim/presets/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let files = setting(Some(&file("ibm-0661")), Some(&file("sparcstation-1")));
    let (experiment, found) = quick(&files);
    assert_eq!(found, expected);
    assert!(experiment.machine(&files).unwrap().contains("presets/sparcstation-1.toml"));
}

/// Promise: an experiment without a machine refuses others, and one that is about the tracks of its
/// disk refuses other disks; what is not there is refused by all.
#[test]
fn refusals() {
    let own = [setting(Some("nvme"), None), setting(None, Some("today"))];
    let refused = |id: &str, setting: &Setting| {
        let error = find(id).unwrap().run(setting, &Silent).unwrap_err().to_string();
        assert!(error.contains("run it without --"), "{id}: {error}");
    };
    for id in ["ffs-table1", "trace-activity", "trace-cache", "ffs-inodes", "cluster-extents"] {
        for own in &own {
            refused(id, own);
        }
    }
    refused("mfs-log", &own[0]);
    let accepts = |own: &Setting| all().iter().filter(|experiment| experiment.check(own).is_ok()).count();
    assert_eq!([accepts(&own[0]), accepts(&own[1])], [all().len() - 6, all().len() - 5]);
    assert_eq!(accepts(&setting(Some("none"), None)) + accepts(&setting(None, Some("nvme"))), 0);
}
