//! The pipeline of `hopper.cuh` as a model: its barriers, copies and products under random schedules. A copy may not write
//! what is still being multiplied, a product may not read what has not come, and nobody waits for ever. Changes of the
//! protocol that break it are found.

use fastrand::Rng;

/// What can be wrong with the protocol.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Nothing,
    /// A stage is given back before its products are known to be done.
    EarlyRelease,
    /// The producer waits for one group only.
    OneGroup,
    /// The producer's first wait is not for free stages.
    WrongPhase,
    /// The last stage of a tile is not given back.
    NoLastRelease,
    /// Groups that have tiles of their own do not wait for each other.
    NoOrder,
}

/// An mbarrier: its phase, and what its present phase still waits for.
#[derive(Clone)]
struct Barrier {
    phase: u32,
    count: i32,
    arrivals: i32,
    bytes: i32,
}

impl Barrier {
    fn new(count: i32) -> Barrier {
        Barrier { phase: 0, count, arrivals: count, bytes: 0 }
    }

    fn arrive(&mut self) {
        self.arrivals -= 1;
        self.turn();
    }

    fn turn(&mut self) {
        if self.arrivals == 0 && self.bytes == 0 {
            (self.phase, self.arrivals) = (self.phase + 1, self.count);
        }
    }

    /// Whether the phase of that parity is over, as `try_wait.parity` tells.
    fn is_over(&self, parity: u32) -> bool {
        self.phase % 2 != parity
    }
}

/// A stage in shared memory: the step whose tiles it has, once for each of its two copies, and who reads it.
#[derive(Clone, Default)]
struct Stage {
    has: [Option<u32>; 2],
    readers: Vec<(usize, u32)>,
}

/// A warpgroup that multiplies: where it is in its steps, and the products that it has not waited for.
#[derive(Clone, Default)]
struct Consumer {
    step: u32,
    running: Vec<u32>,
    /// Steps whose stages it has to give back, before anything else.
    gives_back: Vec<u32>,
}

struct Model {
    /// Tiles that are multiplied in turn: with ping-pong each group has its own.
    turns: u32,
    stages: u32,
    /// Steps of a tile, and tiles of the block.
    steps: u32,
    tiles: u32,
    change: Change,
    full: Vec<Barrier>,
    empty: Vec<Barrier>,
    /// That a group may begin its next tile.
    order: Vec<Barrier>,
    shared: Vec<Stage>,
    consumers: Vec<Consumer>,
    /// The next step of the producer, and copies on their way: step and which of the two.
    produced: u32,
    copies: Vec<(u32, usize)>,
}

impl Model {
    fn new(stages: u32, steps: u32, tiles: u32, groups: usize, ping_pong: bool, change: Change) -> Model {
        let (turns, readers) = if ping_pong { (groups as u32, 1) } else { (1, groups) };
        let warps = if change == Change::OneGroup { 4 } else { 4 * readers as i32 };
        let consumer = |group: usize| Consumer { step: group as u32 % turns * steps, ..Consumer::default() };
        Model {
            turns,
            stages,
            steps,
            tiles,
            change,
            full: vec![Barrier::new(1); stages as usize],
            empty: vec![Barrier::new(warps); stages as usize],
            order: vec![Barrier::new(1); groups],
            shared: vec![Stage::default(); stages as usize],
            consumers: (0..groups).map(consumer).collect(),
            produced: 0,
            copies: Vec::new(),
        }
    }

    fn all(&self) -> u32 {
        self.steps * self.tiles
    }

    fn at(&self, step: u32) -> usize {
        (step % self.stages) as usize
    }

    /// Lets everybody go on, in a random order, until all is done. What went wrong, if anything did.
    fn run(mut self, random: &mut Rng) -> Result<(), String> {
        loop {
            let mut moves = vec![];
            if self.produced < self.all() && self.can_produce() {
                moves.push(0);
            }
            moves.extend((0..self.copies.len()).map(|copy| 100 + copy));
            moves.extend((0..self.consumers.len()).filter(|&group| self.can_multiply(group)).map(|group| 1 + group));
            // The hardware finishes products when it likes, those of a group in order.
            let busy = (0..self.consumers.len()).filter(|&group| !self.consumers[group].running.is_empty());
            moves.extend(busy.map(|group| 1000 + group));
            if moves.is_empty() {
                let done = self.consumers.iter().all(|group| group.step >= self.all()) && self.produced == self.all();
                return if done { Ok(()) } else { Err("everybody waits".into()) };
            }
            match moves[random.usize(0..moves.len())] {
                0 => self.produce()?,
                copy @ 100..1000 => self.come(copy - 100)?,
                group @ 1000.. => self.finish(group - 1000),
                group => self.multiply(group - 1)?,
            }
        }
    }

    fn can_produce(&self) -> bool {
        let phase = self.produced / self.stages % 2;
        let parity = if self.change == Change::WrongPhase { phase } else { phase ^ 1 };
        self.empty[self.at(self.produced)].is_over(parity)
    }

    /// `arrive_and_expect_tx`, and the copies begin.
    fn produce(&mut self) -> Result<(), String> {
        let (step, at) = (self.produced, self.at(self.produced));
        if let Some((group, read)) = self.shared[at].readers.first() {
            return Err(format!("step {step} is copied over step {read}, which group {group} multiplies"));
        }
        self.full[at].bytes += 2;
        self.full[at].arrive();
        self.shared[at].has = [None; 2];
        self.copies.extend([(step, 0), (step, 1)]);
        self.produced += 1;
        Ok(())
    }

    /// A copy has come.
    fn come(&mut self, copy: usize) -> Result<(), String> {
        let (step, which) = self.copies.swap_remove(copy);
        let at = self.at(step);
        if !self.shared[at].readers.is_empty() {
            return Err(format!("a copy of step {step} comes while its stage is read"));
        }
        self.shared[at].has[which] = Some(step);
        self.full[at].bytes -= 1;
        self.full[at].turn();
        Ok(())
    }

    fn can_multiply(&self, group: usize) -> bool {
        let Consumer { step, running, gives_back } = &self.consumers[group];
        if let Some(&back) = gives_back.first() {
            // `warpgroup_wait`: its products are done, unless it does not wait for them.
            return self.change == Change::EarlyRelease || !running.contains(&back);
        }
        *step < self.all() && self.may_begin(group) && self.full[self.at(*step)].is_over(*step / self.stages % 2)
    }

    /// Whether the group is within a tile, or the other group has begun all products of the tile before.
    fn may_begin(&self, group: usize) -> bool {
        let step = self.consumers[group].step;
        let (tile, is_first) = (step / self.steps, step.is_multiple_of(self.steps));
        let free = self.turns == 1 || !is_first || tile == 0 || self.change == Change::NoOrder;
        // The number of tiles that it has done, less one for the group that begins.
        free || self.order[group].is_over((tile / self.turns + group as u32 - 1) % 2)
    }

    /// Gives a stage back, or begins the products of the next step.
    fn multiply(&mut self, group: usize) -> Result<(), String> {
        let consumer = &mut self.consumers[group];
        if !consumer.gives_back.is_empty() {
            let back = consumer.gives_back.remove(0);
            let at = (back % self.stages) as usize;
            (0..4).for_each(|_| self.empty[at].arrive());
            return Ok(());
        }
        let step = consumer.step;
        let at = (step % self.stages) as usize;
        if self.shared[at].has != [Some(step); 2] {
            return Err(format!("group {group} multiplies step {step}, and its stage has {:?}", self.shared[at].has));
        }
        self.shared[at].readers.push((group, step));
        consumer.running.push(step);
        // Within a tile `warpgroup_wait<1>` frees the step before; at its end all are waited for.
        let (within, last) = (step % self.steps, step % self.steps + 1 == self.steps);
        if within > 0 {
            consumer.gives_back.push(step - 1);
        }
        if last && self.change != Change::NoLastRelease {
            consumer.gives_back.push(step);
        }
        consumer.step += if last { 1 + (self.turns - 1) * self.steps } else { 1 };
        if last && self.turns > 1 {
            self.order[1 - group].arrive();
        }
        Ok(())
    }

    fn finish(&mut self, group: usize) {
        let step = self.consumers[group].running.remove(0);
        let at = self.at(step);
        self.shared[at].readers.retain(|reader| *reader != (group, step));
    }
}

/// How many of some random schedules of all shapes of work go wrong.
fn wrong(change: Change) -> usize {
    let mut random = Rng::with_seed(1);
    let mut wrong = 0;
    for _ in 0..300 {
        let (stages, steps, tiles) = (random.u32(2..=12), random.u32(1..=25), random.u32(1..=5));
        let (groups, ping_pong) = [(1, false), (2, false), (2, true)][random.usize(..3)];
        let model = Model::new(stages, steps, tiles, groups, ping_pong, change);
        wrong += usize::from(model.run(&mut random).is_err());
    }
    wrong
}

#[test]
fn no_schedule_goes_wrong() {
    assert_eq!(wrong(Change::Nothing), 0);
}

#[test]
fn what_breaks_the_protocol_is_found() {
    for change in [Change::EarlyRelease, Change::OneGroup, Change::WrongPhase, Change::NoLastRelease, Change::NoOrder] {
        assert!(wrong(change) > 20, "{change:?}: {}", wrong(change));
    }
}

/// What the model has of the kernel's text: who changes one changes the other.
#[test]
fn the_kernel_is_what_the_model_says() {
    let text = include_str!("../../kernels/hopper.cuh");
    for line in [
        "Full::init(&shared.full[i], 1);",
        "kReaders = PingPong ? 1 : Groups,",
        "Empty::init(&shared.empty[i], 4 * kReaders);",
        "Empty::wait(&shared.empty[stage], step / Stages % 2 ^ 1);\n        bring_w(",
        "bring_w(int stage, int n, int from, CopyW copy_w) {\n    Full::arrive_and_expect_tx(&shared.full[stage], (M + N) * DEEP * sizeof(Element));",
        "if (PingPong && (group > 0 || round > 0)) Empty::wait(&shared.order[group], (round - 1 + group) % 2);",
        "Full::wait(&shared.full[stage], step / Stages % 2);",
        "warpgroup_wait<1>();\n      if (step > first && thread % 32 == 0) Empty::arrive(&shared.empty[(step - 1) % Stages]);",
        "warpgroup_wait<0>();\n    cute::warpgroup_fence_operand(sum);\n    if (threadIdx.x % 32 == 0) Empty::arrive(&shared.empty[(end - 1) % Stages]);",
    ] {
        assert!(text.contains(line), "{line}");
    }
}
