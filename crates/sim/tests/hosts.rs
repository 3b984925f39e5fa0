//! Hosts against the shares of the processor that were published.

use spindle_clock::Work;
use spindle_sim::Time;
use spindle_sim::host::Host;
use spindle_sim::preset::Library;

fn host(name: &str) -> Host {
    Host::new(Library::built_in().unwrap().host(name).unwrap()).unwrap()
}

/// What 8 KB took of the processor: the rate in KB (1000 bytes) per second and the share that were
/// published, whether the blocks were new or rewritten or read, and how many there were.
type Row = (&'static str, f64, f64, Blocks, u32);

#[derive(Clone, Copy)]
enum Blocks {
    Read,
    Rewritten,
    New,
}

/// Fails where a host is more than `percent` off what was published.
fn compare(host: &Host, rows: &[Row], percent: f64) {
    let seconds = |work: &[Work]| work.iter().map(|work| host.cost(*work).as_secs_f64()).sum::<f64>();
    for (name, rate, share, kind, blocks) in rows {
        let per_block = match kind {
            Blocks::Read => seconds(&[Work::ReadBlock, Work::Request, Work::Interrupt]),
            Blocks::Rewritten => seconds(&[Work::WriteBlock, Work::Request, Work::Interrupt]),
            Blocks::New => seconds(&[Work::WriteBlock, Work::Allocate, Work::Request, Work::Interrupt]),
        };
        let ours = seconds(&[Work::Call, Work::Copy { bytes: 8192 }]) + f64::from(*blocks) * per_block;
        let published = 8192.0 / (rate * 1e3) * share;
        let off = (ours / published - 1.0) * 100.0;
        println!("{name}: {:.2} ms against {:.2}, {off:+.1} %", ours * 1e3, published * 1e3);
        assert!(off.abs() < percent, "{name}: {off:.1} % off");
    }
}

/// Promise: an 11/750 spends on 8 KB what Table 2 of the 1984 paper says within 15 %, for all block
/// sizes and both buses. Its figures are fitted to this; that so few of them do for ten cells is
/// what this shows.
#[test]
fn shares_of_the_processor() {
    let rows = [
        ("old 1024, reading", 29.0, 0.11, Blocks::Read, 8),
        ("UNIBUS 4096, reading", 221.0, 0.43, Blocks::Read, 2),
        ("UNIBUS 8192, reading", 233.0, 0.29, Blocks::Read, 1),
        ("MASSBUS 4096, reading", 466.0, 0.73, Blocks::Read, 2),
        ("MASSBUS 8192, reading", 466.0, 0.54, Blocks::Read, 1),
        // Taking a block off the free list is part of the write.
        ("old 1024, writing", 48.0, 0.29, Blocks::Rewritten, 8),
        ("UNIBUS 4096, writing", 142.0, 0.43, Blocks::New, 2),
        ("UNIBUS 8192, writing", 215.0, 0.46, Blocks::New, 1),
        ("MASSBUS 4096, writing", 323.0, 0.94, Blocks::New, 2),
        ("MASSBUS 8192, writing", 466.0, 0.95, Blocks::New, 1),
    ];
    compare(&host("vax-11-750"), &rows, 15.0);
}

/// Promise: the same figures predict within 20 % what Berkeley measured on other disks in 1983. The
/// faster disks of that paper take more of the memory from the processor.
#[test]
fn shares_with_other_disks() {
    let rows = [
        ("750, Eagle, 8192, reading", 490.0, 0.69, Blocks::Read, 1),
        ("750, Eagle, 8192, writing", 470.0, 0.99, Blocks::New, 1),
        ("750, Eagle, 8192, rewriting", 650.0, 0.99, Blocks::Rewritten, 1),
        ("750, Eagle, 4096, reading", 300.0, 0.60, Blocks::Read, 2),
        ("750, Eagle, 4096, writing", 340.0, 0.98, Blocks::New, 2),
        ("750, Eagle, 4096, rewriting", 450.0, 0.99, Blocks::Rewritten, 2),
        ("750, RA81, 8192, reading", 310.0, 0.44, Blocks::Read, 1),
        ("750, RA81, 8192, writing", 320.0, 0.71, Blocks::New, 1),
        ("750, RA81, 8192, rewriting", 310.0, 0.50, Blocks::Rewritten, 1),
        ("750, RA81, 4096, reading", 210.0, 0.42, Blocks::Read, 2),
        ("750, RA81, 4096, writing", 220.0, 0.65, Blocks::New, 2),
        ("750, RA81, 4096, rewriting", 230.0, 0.47, Blocks::Rewritten, 2),
    ];
    compare(&host("vax-11-750"), &rows, 20.0);
    // Those of the 11/780 are fitted to these.
    let rows = [
        ("780, Eagle, 8192, reading", 560.0, 0.70, Blocks::Read, 1),
        ("780, Eagle, 8192, writing", 490.0, 0.98, Blocks::New, 1),
        ("780, Eagle, 8192, rewriting", 760.0, 1.00, Blocks::Rewritten, 1),
        ("780, Eagle, 4096, reading", 490.0, 0.77, Blocks::Read, 2),
        ("780, Eagle, 4096, writing", 380.0, 0.99, Blocks::New, 2),
        ("780, Eagle, 4096, rewriting", 490.0, 0.87, Blocks::Rewritten, 2),
    ];
    compare(&host("vax-11-780"), &rows, 10.0);
}

/// Promise: the host of the 1991 paper reads 16 MB of a mapped file in the processor time of figure
/// 12 of the 1991 paper, with clusters and without.
#[test]
fn mapped_reading() {
    let host = host("sparcstation-1");
    let cost = |work: Work| host.cost(work).as_secs_f64();
    let transfer = cost(Work::Request) + cost(Work::Interrupt);
    let blocks = 4096.0 * cost(Work::Fault) + 2048.0 * cost(Work::ReadBlock);
    for (transfers, published) in [(2048.0, 3.4), (2048.0 / 15.0, 2.6)] {
        let ours: f64 = blocks + transfers * transfer;
        assert!((ours / published - 1.0).abs() < 0.03, "{ours} against {published}");
    }
}

/// Promise: prices grow with the bytes, and a host that is ten times as fast as another is nowhere
/// slower.
#[test]
fn prices() {
    let hosts = ["vax-11-750", "unisys-7000-51", "today"].map(host);
    for pair in hosts.windows(2) {
        for work in [Work::Call, Work::Copy { bytes: 100 }, Work::Fault, Work::ReadBlock, Work::WriteBlock] {
            assert!(pair[1].cost(work) <= pair[0].cost(work), "{work:?}");
        }
    }
    assert_eq!(hosts[0].cost(Work::Copy { bytes: 0 }), Time::ZERO);
    assert_eq!(hosts[0].cost(Work::Copy { bytes: 1_860_000 }), Time::from_secs_f64(1.0));
}
