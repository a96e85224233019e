//! Finds out whether a file is on a volume, which outlives the container and belongs to one host.
//!
//! On Linux, `/proc/self/mountinfo` lists the mounts that a process sees, with the types of their file systems.

use std::fs;
use std::path::{Path, PathBuf};

use super::container::{self, Container};

/// What the file in a folder is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// It is shared by the processes of a host.
    HostsIds,
    /// It belongs to the ordinal of a pod.
    PodsOrdinal,
}

/// File systems that several hosts may use at once. SQLite shares its log through memory, which works on one host only,
/// and two hosts may get the same lock.
const OF_MANY_HOSTS: &str =
    "afs beegfs ceph cifs gfs2 glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2 smb3 smbfs";

const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

/// Where Kubernetes keeps volumes that end with their pod.
const EMPTY_DIR: &str = "/kubernetes.io~empty-dir/";

/// Judges the folder of this file. Neither needs to exist. Returns the sign of a container if the folder is doubtful: on
/// the container's root, which is a whole disk, perhaps of a virtual machine.
///
/// # Errors
///
/// Says how ids could repeat: others would hand out the same ones, or an older state could return.
pub fn doubt(file: &Path, keeps: Keeps) -> Result<Option<String>, String> {
    let folder = file.ancestors().skip(1).find_map(|folder| fs::canonicalize(folder).ok());
    let folder = folder.unwrap_or_else(|| PathBuf::from("/"));
    judge(mounts().as_deref(), &folder, container::detect()?.as_ref(), keeps)
}

/// Returns whether something is mounted at the file itself. The list of mounts is for kernels before Linux 5.8; a
/// process without `/proc` does not see it.
pub fn is_mount_point(file: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
        let found = statx(CWD, file, AtFlags::empty(), StatxFlags::empty());
        if found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)) {
            return true;
        }
    }
    let file = fs::canonicalize(file).ok();
    file.zip(mounts()).is_some_and(|(file, mounts)| is_mounted(&mounts, &file))
}

fn is_mounted(mounts: &str, file: &Path) -> bool {
    mounts.lines().filter_map(Mount::of_line).any(|mount| file == Path::new(&mount.point))
}

fn mounts() -> Option<String> {
    let text = fs::read("/proc/self/mountinfo").ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

fn judge(
    mounts: Option<&str>,
    folder: &Path,
    container: Option<&Container>,
    keeps: Keeps,
) -> Result<Option<String>, String> {
    let sign = container.map(|container| &*container.sign);
    let is_pod = container.is_some_and(|container| container.is_pod);
    let is_ordinals = keeps == Keeps::PodsOrdinal;
    let Some(mount) = mounts.and_then(|mounts| mount_of(mounts, folder)) else {
        let Some(sign) = sign.filter(|_| cfg!(target_os = "linux")) else { return Ok(None) };
        return Err(format!(
            "this process runs in a container ({sign}), and /proc/self/mountinfo does not say whether the \
             file is on a volume; {REMEDY}"
        ));
    };
    let Mount { point, kind, .. } = &mount;
    let name = kind.strip_prefix("fuse.").unwrap_or(kind);
    if is_ordinals || sign.is_some() {
        // Nobody has a list of the FUSE file systems that hosts share.
        let is_unknown = is_ordinals && kind.starts_with("fuse.");
        if OF_MANY_HOSTS.split(' ').any(|one| one == name) || is_unknown {
            return Err(format!(
                "its volume at {point} is of type {kind}, which several hosts may use at once, and locks there \
                 exclude nobody for sure; use a volume that is attached to one host (ReadWriteOncePod)"
            ));
        }
        if IN_MEMORY.contains(&name) {
            return Err(format!(
                "{point} is in memory ({kind}), and a start after its end would repeat ids; {REMEDY}"
            ));
        }
        if mount.root.contains(EMPTY_DIR) {
            return Err(format!(
                "{point} is an emptyDir, which ends with its pod, and the next pod would repeat ids; use a \
                 volume that stays (volumeClaimTemplates)"
            ));
        }
    }
    let Some(sign) = sign.filter(|_| point == "/") else { return Ok(None) };
    if mount.is_disk() && !is_pod {
        return Ok(Some(sign.into()));
    }
    Err(format!(
        "it would be in the container's own file system, of type {kind}, which ends with the container, and \
         each container has another ({sign}): the same ids would be handed out again; {REMEDY}"
    ))
}

const REMEDY: &str = "mount a volume that stays, and name a file on it, or use a server (see \
                      docs/kubernetes.md). UIDRING_CONTAINER=0 says that this is no container";

/// A line of `mountinfo`.
struct Mount {
    /// The mounted folder, within its file system.
    root: String,
    point: String,
    kind: String,
    source: String,
}

impl Mount {
    fn of_line(line: &str) -> Option<Self> {
        // id, parent, device, root, mount point, options, fields up to a hyphen, type, source, …
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let mut after = after.split(' ');
        Some(Self {
            root: plain(before.next()?),
            point: plain(before.next()?),
            kind: after.next()?.to_owned(),
            source: plain(after.next()?),
        })
    }

    /// Whether a whole disk is mounted here, not a part of one or a container's layer.
    fn is_disk(&self) -> bool {
        self.root == "/" && self.source.starts_with("/dev/")
    }
}

/// Returns the mount of a folder: the innermost one, or the last of several at the same point.
fn mount_of(mounts: &str, folder: &Path) -> Option<Mount> {
    let mounts = mounts.lines().filter_map(Mount::of_line);
    let around = mounts.filter(|mount| folder.starts_with(&mount.point));
    around.max_by_key(|mount| Path::new(&mount.point).components().count())
}

/// Decodes spaces, tabs, newlines and backslashes, each written as three octal digits.
fn plain(field: &str) -> String {
    let codes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    codes.iter().fold(field.to_owned(), |field, (code, letter)| field.replace(code, letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mounts of a pod, with containerd.
    const POD: &str = "\
600 500 0:200 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/a,upperdir=/b,workdir=/c
601 600 0:201 / /proc rw - proc proc rw
602 600 0:202 / /dev rw - tmpfs tmpfs rw,size=65536k
603 600 8:1 /var/lib/kubelet/pods/0a/etc-hosts /etc/hosts rw - ext4 /dev/sda1 rw
604 600 253:0 / /data rw,relatime - ext4 /dev/sdb rw
605 600 8:1 /var/lib/kubelet/pods/0a/volumes/kubernetes.io~empty-dir/x /scratch rw - ext4 /dev/sda1 rw
606 600 0:203 / /memory rw - tmpfs tmpfs rw
607 600 0:204 / /shared rw - nfs4 10.0.0.1:/export rw,vers=4.1
608 600 8:1 /srv/with\\040space /with\\040space rw - xfs /dev/sda1 rw shared:1 rw
609 604 0:205 / /data/inner rw - fuse.glusterfs h:/v rw
610 600 8:1 /mnt/disks/a /twice rw - nfs h:/v rw
611 610 8:1 /mnt/disks/a /twice rw - ext4 /dev/sda1 rw
";

    fn container(is_pod: bool) -> Container {
        Container { sign: "the sign".into(), is_pod }
    }

    type Verdict = Result<Option<String>, String>;

    const FINE: Verdict = Ok(None);

    fn in_pod(folder: &str, keeps: Keeps) -> Verdict {
        judge(Some(POD), Path::new(folder), Some(&container(true)), keeps)
    }

    fn is_refused(verdict: Verdict, words: &[&str]) {
        let Err(text) = verdict else { panic!("{words:?}: {verdict:?}") };
        assert!(words.iter().all(|word| text.contains(word)), "{words:?}: {text}");
    }

    #[test]
    fn a_container_keeps_files_on_volumes_alone() {
        for keeps in [Keeps::HostsIds, Keeps::PodsOrdinal] {
            for folder in ["/data", "/data/uidring", "/with space", "/twice/a"] {
                assert_eq!(in_pod(folder, keeps), FINE, "{folder}");
            }
            is_refused(in_pod("/root/.local/share", keeps), &["overlay", "the sign", "volume"]);
            is_refused(in_pod("/database", keeps), &["overlay"]);
            is_refused(in_pod("/memory/a", keeps), &["/memory", "tmpfs"]);
            is_refused(in_pod("/dev", keeps), &["/dev", "tmpfs"]);
            is_refused(
                in_pod("/scratch", keeps),
                &["/scratch", "emptyDir", "volumeClaimTemplates"],
            );
            is_refused(in_pod("/shared/x", keeps), &["/shared", "nfs4", "ReadWriteOncePod"]);
            is_refused(in_pod("/data/inner", keeps), &["fuse.glusterfs"]);
            let bucket = POD.replace("glusterfs", "s3fs");
            let bucket =
                judge(Some(&bucket), Path::new("/data/inner"), Some(&container(true)), keeps);
            match keeps {
                Keeps::HostsIds => assert_eq!(bucket, FINE),
                Keeps::PodsOrdinal => is_refused(bucket, &["fuse.s3fs"]),
            }
            let unknown = judge(None, Path::new("/data"), Some(&container(false)), keeps);
            is_refused(unknown, &["mountinfo", "the sign"]);
            assert_eq!(judge(None, Path::new("/data"), None, keeps), FINE);
        }
    }

    #[test]
    fn a_machine_is_not_a_container() {
        let machine = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
            28 27 0:25 / /tmp rw - tmpfs tmpfs rw
            29 27 0:26 / /home rw - nfs4 h:/home rw";
        let machine: String = machine.lines().map(|line| format!("{}\n", line.trim())).collect();
        let at = |folder: &str, container: Option<&Container>, keeps| {
            judge(Some(&machine), Path::new(folder), container, keeps)
        };
        assert_eq!(at("/var/lib", None, Keeps::HostsIds), FINE);
        assert_eq!(at("/var/lib", None, Keeps::PodsOrdinal), FINE);
        assert_eq!(at("/tmp", None, Keeps::HostsIds), FINE);
        is_refused(at("/tmp", None, Keeps::PodsOrdinal), &["/tmp", "tmpfs"]);
        is_refused(at("/home/x", None, Keeps::PodsOrdinal), &["nfs4"]);
        // The disk is the same for every use.
        for keeps in [Keeps::HostsIds, Keeps::PodsOrdinal] {
            let doubtful = Ok(Some("the sign".into()));
            assert_eq!(at("/var/lib", Some(&container(false)), keeps), doubtful);
            is_refused(at("/var/lib", Some(&container(true)), keeps), &["the sign", "volume"]);
        }
    }

    /// Roots that are a part of a disk or no disk, as with Docker's btrfs and zfs drivers and with LXC.
    #[test]
    fn a_container_without_layers_is_known() {
        for root in [
            "1 0 0:30 /docker/btrfs/subvolumes/5c / rw - btrfs /dev/sda2 rw",
            "1 0 0:31 / / rw - zfs tank/docker/5c rw",
            "1 0 253:5 /rootfs / rw - ext4 /dev/mapper/docker-253:0-5c rw",
            "1 0 8:1 /var/lib/lxc/a/rootfs / rw - ext4 /dev/sda1 rw",
        ] {
            let verdict =
                judge(Some(root), Path::new("/a"), Some(&container(false)), Keeps::HostsIds);
            is_refused(verdict, &["the sign"]);
            assert_eq!(judge(Some(root), Path::new("/a"), None, Keeps::HostsIds), FINE);
        }
    }

    #[test]
    fn a_file_that_is_mounted_itself_is_told_from_one_in_a_mounted_folder() {
        assert!(is_mounted(POD, Path::new("/etc/hosts")));
        assert!(is_mounted(POD, Path::new("/with space")));
        assert!(!is_mounted(POD, Path::new("/data/a.db")));
    }

    #[test]
    fn lines_that_are_none_are_left_out() {
        for text in ["", "\n", "a b c", "1 2 3 4 - ext4", " - - - ", "1 0 0:1 / /data rw -ext4 x"] {
            assert!(mount_of(text, Path::new("/data")).is_none(), "{text}");
        }
    }
}
