use aya::{Btf, EbpfLoader, programs::BtfTracePoint};
fn main() {
    let btf = Btf::from_sys_fs().unwrap();
    let data = std::fs::read(std::env::args().nth(1).unwrap()).unwrap();
    let mut e =
        EbpfLoader::new().btf(Some(&btf)).override_global("BY_TREE", &1u32, true).load(&data).unwrap();
    for (n, t) in [
        ("process_starts", "sched_process_fork"),
        ("process_ends", "sched_process_exit"),
        ("program_replaced", "sched_prepare_exec"),
        ("program_loaded", "sched_process_exec"),
        ("name_goes", "ext4_unlink_enter"),
        ("data_goes", "ext4_evict_inode"),
        ("call_begins", "sys_enter"),
        ("call_ends", "sys_exit"),
    ] {
        let p: &mut BtfTracePoint = e.program_mut(n).unwrap().try_into().unwrap();
        match p.load(t, &btf) {
            Ok(()) => {
                println!("{n} ok");
                if std::env::args().any(|a| a == n || a == "all") {
                    p.attach().unwrap();
                }
            }
            Err(x) => {
                let s = format!("{x:?}").replace("\\n", "\n");
                let l: Vec<_> = s.lines().collect();
                println!("{n} FAILED\n{}", l[l.len().saturating_sub(25)..].join("\n"));
            }
        }
    }
    if let Some(s) = std::env::args().nth(2) {
        std::thread::sleep(std::time::Duration::from_secs(s.parse().unwrap()));
    }
}
