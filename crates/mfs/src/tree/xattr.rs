//! Extended attributes: the whole of them is read, changed and written at once.

use super::mount::Mfs;
use crate::format::attributes::ATTRIBUTE_BYTES;
use crate::volume::attributes::bytes_for_attributes;
use spindle_tree::xattr::split;
use spindle_tree::{Operations, Tree};
use spindle_vfs::{Error, Ino, Result, XattrMode};

impl Mfs {
    /// Returns the value of an attribute.
    pub(crate) fn attribute(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let (space, name) = split(name).ok_or(Error::NotSupported)?;
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        let chain = self.volume.read_attributes(inode.ino, &state.di)?;
        chain.attributes.get(space, name).map(<[u8]>::to_vec).ok_or(Error::NoAttribute)
    }

    /// Returns the names of all attributes of a file.
    pub(crate) fn attribute_names(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        let inode = self.iget_ino(ino)?;
        let state = inode.state.read();
        let chain = self.volume.read_attributes(inode.ino, &state.di)?;
        Ok(chain.attributes.names().collect())
    }

    /// Sets (`Some`) or removes (`None`) an attribute.
    pub(crate) fn change_attribute(
        &self,
        ino: Ino,
        name: &[u8],
        value: Option<(&[u8], XattrMode)>,
    ) -> Result<()> {
        if self.volume.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let (space, name) = split(name).ok_or(Error::NotSupported)?;
        let inode = self.iget_ino(ino)?;
        let mut state = inode.state.write();
        let chain = self.volume.read_attributes(inode.ino, &state.di)?;
        let mut attributes = chain.attributes.clone();
        let existed = attributes.get(space, name).is_some();
        match value {
            None | Some((_, XattrMode::Replace)) if !existed => return Err(Error::NoAttribute),
            Some((_, XattrMode::Create)) if existed => return Err(Error::Exists),
            Some((value, _)) => attributes.set(space, name, value)?,
            None => attributes.remove(space, name),
        }
        let needed = attributes.encode()?.len().div_ceil(ATTRIBUTE_BYTES);
        self.volume.transact(bytes_for_attributes(&chain, needed), &mut *state, |tx, state| {
            self.volume.write_attributes(tx, (inode.ino, &mut state.di), chain, &attributes)?;
            state.di.times[2] = self.now();
            self.volume.store(tx, inode.ino, &state.di)
        })
    }
}
