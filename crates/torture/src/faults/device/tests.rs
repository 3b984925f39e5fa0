use super::*;

const SECTOR: u64 = 512;

/// Returns a device of 64 sectors that hold their numbers.
fn device(plan: &str) -> FaultyDevice {
    let bytes: Vec<u8> = (0..64).flat_map(|n| [n; 512]).collect();
    FaultyDevice::new(&MemoryDevice::from_bytes(&bytes), plan.parse().unwrap(), 1)
}

/// Returns the number in each sector that is found when the medium is opened next.
fn found(device: &FaultyDevice, unflushed: Unflushed) -> Vec<u8> {
    device.medium(unflushed).to_bytes().chunks(512).map(|sector| sector[0]).collect()
}

fn read(device: &FaultyDevice, sector: u64) -> Result<u8> {
    let buf = AlignedBuf::zeroed(1024);
    let ticket = device.submit(Request { op: Op::Read, offset: sector * SECTOR, buf })?;
    device.wait(ticket).map(|buf| buf[0])
}

/// Promise: without a fault, reads return every write, and a power cut loses exactly what was not
/// flushed.
#[test]
fn a_flush_makes_durable() {
    let device = device("dead@99s");
    device.write_at(SECTOR, &[70; 512]).unwrap();
    device.flush().unwrap();
    device.write_at(2 * SECTOR, &[80; 512]).unwrap();
    assert_eq!((read(&device, 1).unwrap(), read(&device, 2).unwrap()), (70, 80));
    assert_eq!(found(&device, Unflushed::Lost)[..4], [0, 70, 2, 3]);
    assert_eq!(found(&device, Unflushed::Kept)[..4], [0, 70, 80, 3]);
    assert_eq!(device.counts(), Counts { reads: 2, writes: 2, flushes: 1, injected: 0, errors_reported: 0 });
}

/// Promise: a flush does not make a write durable that was not waited for before it; the next flush
/// does.
#[test]
fn a_flush_covers_finished_writes() {
    let device = device("dead@99s");
    let buf = AlignedBuf::from(&[70; 512][..]);
    let ticket = device.submit(Request { op: Op::Write, offset: 0, buf }).unwrap();
    device.write_at(SECTOR, &[70; 512]).unwrap();
    device.flush().unwrap();
    assert_eq!(found(&device, Unflushed::Lost)[..3], [0, 70, 2]);
    device.wait(ticket).unwrap();
    device.flush().unwrap();
    assert_eq!(found(&device, Unflushed::Lost)[..3], [70, 70, 2]);
}

/// Promise: beyond the allowance everything fails.
#[test]
fn the_allowance_ends() {
    let device = device("dead@0-0s");
    for _ in 0..MOST_REQUESTS {
        read(&device, 0).unwrap();
    }
    assert!(!device.exhausted());
    assert!(read(&device, 0).is_err() && device.exhausted());
}

/// Promise: a fault affects the requests of its plan and no others, and an error is reported when
/// the plan says.
#[test]
fn a_plan_is_followed() {
    let device = device("read-error@1-3w");
    assert_eq!(read(&device, 5).unwrap(), 5);
    for _ in 0..2 {
        let buf = AlignedBuf::zeroed(512);
        let ticket = device.submit(Request { op: Op::Read, offset: 0, buf }).unwrap();
        assert!(device.wait(ticket).is_err());
    }
    assert_eq!(read(&device, 5).unwrap(), 5);
    assert_eq!(device.counts().injected, 2);

    let device = self::device("write-error@0-1s");
    let request = |n| Request { op: Op::Write, offset: 0, buf: AlignedBuf::from(&[n; 512][..]) };
    assert!(device.submit(request(9)).is_err());
    let ticket = device.submit(request(8)).unwrap();
    device.wait(ticket).unwrap();
    assert_eq!((read(&device, 0).unwrap(), device.counts().errors_reported), (8, 1));
}

/// Promise: a dead device does nothing and reports errors; after the fault it works.
#[test]
fn dead_devices_do_nothing() {
    let device = device("dead@1-4s");
    device.write_at(0, &[90; 512]).unwrap();
    assert!(device.flush().is_err());
    assert!(device.write_at(SECTOR, &[90; 512]).is_err());
    assert!(read(&device, 0).is_err());
    assert_eq!(read(&device, 0).unwrap(), 90);
    assert_eq!(found(&device, Unflushed::Lost)[..2], [0, 1]);
    device.flush().unwrap();
    assert_eq!(found(&device, Unflushed::Lost)[..2], [90, 1]);
    assert_eq!((device.counts().injected, device.counts().errors_reported), (3, 2));
}

/// Promise: partial transfers transfer a part and fail; silent faults succeed.
#[test]
fn effects_of_faults() {
    let whole = [99; 16 * 512];
    let changed = |device: &FaultyDevice| {
        let found = found(device, Unflushed::Kept);
        (0..64).filter(|&n| found[n] == 99).collect::<Vec<_>>()
    };
    for (plan, fails) in [("short-write@0s", true), ("torn-write@0w", true), ("misdirected-write@0s", false)]
    {
        let device = device(plan);
        assert_eq!(device.write_at(0, &whole).is_err(), fails, "{plan}");
        let changed = changed(&device);
        match plan {
            "short-write@0s" => {
                assert!(changed.len() < 16 && changed.iter().enumerate().all(|(a, &b)| a == b));
            }
            "torn-write@0w" => assert!((1..16).contains(&changed.len()), "{changed:?}"),
            _ => assert!(changed.len() == 16 && changed[0] > 0, "{changed:?}"),
        }
    }
    let device = self::device("lost-write@0s");
    device.write_at(0, &whole).unwrap();
    assert_eq!((changed(&device), read(&device, 7).unwrap()), (vec![], 7));

    let device = self::device("flipped-read@0s");
    let mut buf = [0; 512];
    device.read_at(3 * SECTOR, &mut buf).unwrap();
    let flipped = buf.iter().filter(|&&b| b != 3).count();
    assert!((1..=8).contains(&flipped), "{flipped}");

    let device = self::device("short-read@0s");
    let mut buf = vec![0; 64 * 512];
    assert!(device.read_at(0, &mut buf).is_err());
    assert_eq!(buf[buf.len() - 1], 0);
}

/// Promise: after a failed flush a later one does not bring back what was lost; an idle flush
/// succeeds and makes nothing durable.
#[test]
fn flushes_lose() {
    let lost = |plan: &str| {
        let device = device(plan);
        for n in 0..64 {
            device.write_at(n * SECTOR, &[99; 512]).unwrap();
        }
        let failed = device.flush().is_err();
        let durable = |device| found(device, Unflushed::Lost).into_iter().filter(|b| *b == 99).count();
        let at_once = durable(&device);
        device.flush().unwrap();
        (failed, at_once, durable(&device))
    };
    let (failed, at_once, later) = lost("flush-error@0-1s");
    assert!(failed && at_once == 0 && (1..64).contains(&later));
    assert_eq!(lost("idle-flush@0-1s"), (false, 0, 64));
}
