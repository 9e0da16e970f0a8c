package cluster

import (
	"fmt"
	"time"

	"weir/cluster/snapshot"
	"weir/leaky"
	"weir/ring"
)

// mark says whose words a snapshot holds.
func (c *Cluster) mark() snapshot.Mark {
	return snapshot.Mark{HashKey: c.config.HashKey, Format: ring.Format, Partitions: ring.Partitions}
}

// Save writes all words that this node has, of its own partitions and of the
// copies that it keeps, to a file. It returns how many there are.
func (c *Cluster) Save(path string, wall func() time.Time) (int, error) {
	now := c.clock() // before the wall clock: if time passes between them, buckets are fuller for it
	at := snapshot.Clock{Deciding: now, Wall: wall().UnixNano()}
	n, err := snapshot.Save(path, c.mark(), at, func(yield func(uint32, snapshot.Entry) bool) {
		var entries []snapshot.Entry
		for i := range c.partitions {
			// Copied first, so that no decision waits for the disk.
			entries = entries[:0]
			p := &c.partitions[i]
			p.mu.Lock()
			p.Words(now, func(fingerprint uint64, word leaky.Word) {
				entries = append(entries, snapshot.Entry{Fingerprint: fingerprint, Word: word})
			})
			p.mu.Unlock()
			for _, e := range entries {
				if !yield(uint32(i), e) {
					return
				}
			}
		}
	})
	if err != nil {
		return 0, fmt.Errorf("cluster: %w", err)
	}
	return n, nil
}

// Restore takes in the words of a snapshot, less the time that has passed since.
// It is to be called before Open. After an error nothing is taken in.
func (c *Cluster) Restore(path string, wall func() time.Time) (snapshot.Loaded, error) {
	type entry struct {
		partition   uint32
		fingerprint uint64
		word        leaky.Word
	}
	var entries []entry
	at := snapshot.Clock{Wall: wall().UnixNano()}
	now := c.clock() // after it, for the same reason
	at.Deciding = now
	loaded, err := snapshot.Load(path, c.mark(), at, func(partition uint32, fingerprint uint64, word leaky.Word) {
		entries = append(entries, entry{partition, fingerprint, word})
	})
	if err != nil {
		return snapshot.Loaded{}, fmt.Errorf("cluster: %w", err)
	}
	for _, e := range entries {
		p := &c.partitions[e.partition]
		p.mu.Lock()
		p.Restore(e.fingerprint, e.word, now)
		p.mu.Unlock()
	}
	return loaded, nil
}
