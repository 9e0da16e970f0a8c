package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"weir/cluster"
)

// snapshotEvery is how often the state is saved while a node runs.
const snapshotEvery = 30 * time.Second

// snapshots keeps the state in a file, for the day that all nodes stop.
type snapshots struct {
	path    string
	now     func() time.Time
	cluster *cluster.Cluster
	log     *slog.Logger

	refused bool // the file that was found is kept, so nothing is saved over it
	cancel  context.CancelFunc
	worker  sync.WaitGroup
	last    sync.Once
}

func newSnapshot(c Config, of *cluster.Cluster) *snapshots {
	return &snapshots{path: c.Snapshot, now: c.Now, cluster: of, log: c.Log, cancel: func() {}}
}

// load takes in what was saved. A file that cannot be used is kept as it is, and
// the node starts empty.
func (s *snapshots) load() {
	if s.path == "" {
		return
	}
	loaded, err := s.cluster.Restore(s.path, s.now())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.log.Info("no snapshot yet", "file", s.path)
	case err != nil:
		s.refused = true
		s.log.Error("the snapshot cannot be used and is kept; starting empty, and saving nothing to this file", "file", s.path, "error", err)
	default:
		s.log.Info("snapshot loaded", "file", s.path, "buckets", loaded.Words, "saved", loaded.Saved, "passed", loaded.Passed)
	}
}

// start saves now and then.
func (s *snapshots) start() {
	if s.path == "" || s.refused {
		return
	}
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	s.worker.Go(func() {
		ticker := time.NewTicker(snapshotEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				s.save()
				return
			case <-ticker.C:
				s.save()
			}
		}
	})
}

// finish saves for the last time. It is to be called before the node gives its
// partitions away, and may be called again.
func (s *snapshots) finish() {
	s.last.Do(func() {
		s.cancel()
		s.worker.Wait()
	})
}

func (s *snapshots) save() {
	n, err := s.cluster.Save(s.path, s.now())
	if err != nil {
		s.log.Error("the snapshot could not be saved", "file", s.path, "error", err)
		return
	}
	s.log.Debug("snapshot saved", "file", s.path, "buckets", n)
}
