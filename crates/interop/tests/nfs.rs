//! A mount exported by a server of NFS in user space (nfs-ganesha) to a client in user space
//! (libnfs). The server keeps handles of the kernel and opens files with them.

use spindle_clock::{Clock, SystemClock};
use spindle_interop::handle::drop_caches;
use spindle_interop::spindle::{Mounted, fsck, spindle};
use spindle_interop::tool::{command, run};
use spindle_interop::{Failure, Result};
use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Bytes of a file that the client writes: libnfs 4.0 fails with 4 KiB in one request of version 4.
const COPIED_BYTES: usize = 3000;

fn failed<E: std::fmt::Display>(what: &str) -> impl FnOnce(E) -> Failure {
    Failure::of(what.to_owned())
}

/// A running server.
struct Server {
    child: Child,
    port: u16,
    place: PathBuf,
}

impl Server {
    /// Starts a server that exports `mount` and has its files in `place`.
    fn start(mount: &Path, place: &Path) -> Result<Self> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let port = free.map_err(failed("a port"))?.port();
        let (config, log, pid) = (place.join("config"), place.join("log"), place.join("pid"));
        let text = format!(
            "NFS_Core_Param {{ Protocols = 4; NFS_Port = {port}; Bind_addr = 127.0.0.1;
                 Enable_NLM = false; Enable_RQUOTA = false; fsid_device = true; }}
             NFSv4 {{ Graceless = true; RecoveryRoot = {}; }}
             EXPORT {{ Export_Id = 1; Path = {}; Pseudo = /export; Access_Type = RW; Squash = None;
                 SecType = sys; Protocols = 4; FSAL {{ Name = VFS; }} }}",
            place.display(),
            mount.display(),
        );
        fs::write(&config, text).map_err(failed("configuration"))?;
        let mut server = Command::new("ganesha.nfsd");
        server.arg("-F").arg("-f").arg(&config).arg("-L").arg(&log).arg("-p").arg(&pid);
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = server.spawn().map_err(failed("ganesha.nfsd is not installed; run `make setup`"))?;
        let server = Self { child, port, place: place.to_owned() };
        for _ in 0..600 {
            if fs::read_to_string(&log).is_ok_and(|text| text.contains("NFS SERVER INITIALIZED")) {
                return Ok(server);
            }
            SystemClock.sleep(Duration::from_millis(100));
        }
        Err(Failure::new(format!("the server did not start: {}", server.log())))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.place.join("log")).unwrap_or_default()
    }

    fn url(&self, name: &str) -> String {
        format!("nfs://127.0.0.1/export/{name}?version=4&nfsport={}", self.port)
    }

    fn cat(&self, name: &str) -> Result<Vec<u8>> {
        run(command("nfs-cat").arg(self.url(name)))
    }

    fn copy(&self, from: &Path, to: &str) -> Result<()> {
        run(command("nfs-cp").arg(from).arg(self.url(to))).map(drop)
    }

    /// Returns what the client lists of a directory.
    fn list(&self, name: &str) -> Result<String> {
        Ok(String::from_utf8_lossy(&run(command("nfs-ls").arg(self.url(name)))?).into_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(self.place.join("log"));
    }
}

/// Promise: a client of NFS reads what the mount has, and the mount has what it wrote, also after
/// the kernel has dropped its caches, after a restart of the server, and on a new mount.
#[test]
fn a_mount_is_exported() -> Result<()> {
    for (newfs, mode) in
        [(&["-O2"][..], "writethrough"), (&["-O1"][..], "writeback"), (&["-t", "mfs"][..], "writethrough")]
    {
        println!("{newfs:?} {mode}");
        let directory = TempDir::new().map_err(failed("temporary directory"))?;
        let [image, server_place, local] =
            ["image", "server", "local"].map(|name| directory.path().join(name));
        fs::create_dir(&server_place).map_err(failed("temporary directory"))?;
        let words = [&["newfs", "-s", "64m"][..], newfs].concat();
        spindle(words.into_iter().map(OsStr::new).chain([image.as_os_str()]))?;
        let bytes: Vec<u8> =
            (0..3_000_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
        fs::write(&local, &bytes[..COPIED_BYTES]).map_err(failed("temporary file"))?;

        let options = format!("allow_other,{mode}");
        let mounted = Mounted::new(&image, &options)?;
        let deep = mounted.path().join("a/b/c/d");
        fs::create_dir_all(&deep).map_err(failed("mkdir"))?;
        fs::write(deep.join("local"), &bytes).map_err(failed("write"))?;
        let server = Server::start(mounted.path(), &server_place)?;
        let drop_caches = || drop_caches(mounted.path()).map_err(failed("drop_caches"));
        assert!(server.cat("a/b/c/d/local")? == bytes);
        for n in 0..20 {
            server.copy(&local, &format!("a/b/c/d/remote{n}"))?;
            let written = fs::read(deep.join(format!("remote{n}"))).map_err(failed("read"))?;
            assert!(written == bytes[..COPIED_BYTES]);
        }
        for _ in 0..3 {
            drop_caches()?;
            assert!(server.cat("a/b/c/d/local")? == bytes);
            assert!(server.cat("a/b/c/d/remote7")? == bytes[..COPIED_BYTES]);
            drop_caches()?;
            let listed = server.list("a/b/c/d")?;
            assert!(listed.contains("local") && listed.contains("remote19"), "{listed}");
        }
        fs::remove_file(deep.join("local")).map_err(failed("unlink"))?;
        drop_caches()?;
        assert!(server.cat("a/b/c/d/local").is_err());
        drop(server);

        let server = Server::start(mounted.path(), &server_place)?;
        drop_caches()?;
        assert!(server.cat("a/b/c/d/remote3")? == bytes[..COPIED_BYTES]);
        server.copy(&local, "again")?;
        drop(server);
        mounted.unmount()?;
        fsck(&image)?;

        let mounted = Mounted::new(&image, &options)?;
        let server = Server::start(mounted.path(), &server_place)?;
        for name in ["a/b/c/d/remote19", "again"] {
            assert!(server.cat(name)? == bytes[..COPIED_BYTES]);
        }
        drop(server);
        mounted.unmount()?;
        fsck(&image)?;
    }
    Ok(())
}
