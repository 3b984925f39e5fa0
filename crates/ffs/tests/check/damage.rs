//! Every kind of damage, planted in a good image: the check names it, in the right place, and
//! nothing that does not follow from it.

use crate::tables;
use serde_json::Value;
use spindle_ffs::check::Finding;
use std::collections::BTreeSet;

/// Returns true if `found` has every member of `want`, in objects inside as well.
fn matches(found: &Value, want: &Value) -> bool {
    match want {
        Value::Object(members) => members.iter().all(|(key, want)| matches(&found[key], want)),
        _ => found == want,
    }
}

/// Promise: each kind of damage in the tables gives exactly the finding that names it with its
/// place, and nothing but what follows from it; and the tables leave no kind of finding out.
#[test]
fn each_kind_is_found_where_it_is() {
    let mut seen = BTreeSet::new();
    let mut all_there = true;
    for (image, table) in tables::all() {
        let Some(image) = image else {
            all_there = false;
            continue;
        };
        for (name, plant) in table {
            let mut image = image.clone();
            let want = plant(&mut image);
            let report = image.check();
            let found: Vec<Value> =
                report.findings.iter().map(|found| serde_json::to_value(found).unwrap()).collect();
            let text: Vec<String> = report.findings.iter().take(20).map(ToString::to_string).collect();
            assert!(text.iter().all(|text| !text.contains("corrupt:")), "{name}: said twice in {text:#?}");
            for exact in &want.exactly {
                let hits = found.iter().filter(|found| matches(found, exact)).count();
                assert_eq!(hits, 1, "{name}: {exact} in {text:#?}");
                seen.insert(exact["finding"].as_str().unwrap().to_owned());
            }
            for found in &found {
                let kind = found["finding"].as_str().unwrap();
                let meant = want.exactly.iter().any(|exact| matches(found, exact));
                assert!(meant || want.also.contains(&kind), "{name}: unexpected {found} in {text:#?}");
            }
        }
    }
    // A system has to be named for it: see `tests/next.rs`.
    seen.insert("LabelMissing".to_owned());
    let missing: Vec<_> = Finding::KINDS.iter().filter(|&&kind| !seen.contains(kind)).collect();
    assert!(missing.is_empty() || !all_there, "no damage planted for {missing:?}");
}
