//! The dies of a solid-state disk, and the channels that lead to them.
//!
//! A die does one thing at a time, in the order in which it comes; but a read for the host goes
//! before what has not begun. A page occupies the channel after it was read, or before it is
//! programmed.
//!
//! Invariant: the ends of what a die has to do rise.

use crate::time::Time;
use std::collections::VecDeque;

/// Something that a die has to do.
#[derive(Clone, Copy, Debug)]
struct Planned {
    end: Time,
    /// A read for the host.
    urgent: bool,
}

/// Dies with their channels.
#[derive(Clone, Debug)]
pub struct Dies {
    /// What each has to do.
    planned: Vec<VecDeque<Planned>>,
    /// When each channel is free again; die n has channel n modulo their number.
    channels: Vec<Time>,
    /// The time of a page on a channel.
    page: Time,
}

impl Dies {
    /// Returns idle dies.
    pub fn new(dies: u32, channels: u32, page: Time) -> Self {
        Self {
            planned: vec![VecDeque::new(); dies as usize],
            channels: vec![Time::ZERO; channels as usize],
            page,
        }
    }

    /// Reads a page for the host, not before `from`. Returns how much later than on idle dies the
    /// page is there.
    pub fn read(&mut self, die: usize, from: Time, takes: Time) -> Time {
        let planned = &mut self.planned[die];
        while planned.front().is_some_and(|first| first.end <= from) {
            planned.pop_front();
        }
        let ahead = planned.iter().skip(1).take_while(|one| one.urgent).count() + planned.len().min(1);
        let begin = ahead.checked_sub(1).map_or(from, |last| planned[last].end);
        planned.iter_mut().skip(ahead).for_each(|one| one.end += takes);
        planned.insert(ahead, Planned { end: begin + takes, urgent: true });
        let sent = self.send(die, begin + takes);
        sent - (from + takes + self.page)
    }

    /// Reads a page for the layer itself, after what the die has to do.
    pub fn fetch(&mut self, die: usize, from: Time, takes: Time) {
        let end = self.queue(die, from, takes);
        self.send(die, end);
    }

    /// Programs a page after what the die has to do. Returns when it is done.
    pub fn program(&mut self, die: usize, from: Time, takes: Time) -> Time {
        let sent = self.send(die, from);
        self.queue(die, sent, takes)
    }

    fn queue(&mut self, die: usize, from: Time, takes: Time) -> Time {
        let planned = &mut self.planned[die];
        while planned.front().is_some_and(|first| first.end <= from) {
            planned.pop_front();
        }
        let end = planned.back().map_or(from, |last| last.end.max(from)) + takes;
        planned.push_back(Planned { end, urgent: false });
        end
    }

    /// Passes a page on the die's channel, not before `from`. Returns when it is over.
    fn send(&mut self, die: usize, from: Time) -> Time {
        let count = self.channels.len();
        let channel = &mut self.channels[die % count];
        // What was planned for later does not keep the channel from what comes now.
        *channel =
            if *channel > from + self.page { from + self.page } else { from.max(*channel) + self.page };
        *channel
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: f64) -> Time {
        Time::from_ms_f64(us / 1e3)
    }

    /// Promise: a read waits for what its die has begun and for reads before it, not for more, and
    /// what it passes is done so much later.
    #[test]
    fn reads_go_first() {
        let mut dies = Dies::new(2, 2, Time::ZERO);
        assert_eq!(dies.program(0, us(0.0), us(700.0)), us(700.0));
        assert_eq!(dies.program(0, us(0.0), us(700.0)), us(1400.0));
        assert_eq!(dies.read(0, us(100.0), us(50.0)), us(600.0));
        assert_eq!(dies.read(0, us(100.0), us(50.0)), us(650.0));
        assert_eq!(dies.read(1, us(100.0), us(50.0)), Time::ZERO);
        assert_eq!(dies.program(0, us(200.0), us(700.0)), us(2200.0));
    }

    /// Promise: pages of dies on one channel pass one after the other.
    #[test]
    fn a_channel_has_one_page_at_a_time() {
        let mut dies = Dies::new(4, 2, us(20.0));
        assert_eq!(dies.read(0, us(0.0), us(50.0)), Time::ZERO);
        assert_eq!(dies.read(2, us(0.0), us(50.0)), us(20.0));
        assert_eq!(dies.read(1, us(0.0), us(50.0)), Time::ZERO);
    }
}
