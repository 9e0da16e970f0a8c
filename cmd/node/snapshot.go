package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/gofrs/flock"

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

	lock    *flock.Flock // on a file beside it, since the file itself is replaced by each save
	refused bool         // the file that was found is kept, so nothing is saved over it
	cancel  context.CancelFunc
	worker  sync.WaitGroup
	saving  chan struct{} // has room for one
}

// openSnapshots takes in what was saved, if a file is configured. A file that
// cannot be used is kept as it is, and the node starts empty. It fails if no file
// could be written there, or if another node has it.
func openSnapshots(c Config, of *cluster.Cluster) (*snapshots, error) {
	s := &snapshots{path: c.Snapshot, now: c.Now, cluster: of, log: c.Log, cancel: func() {}, saving: make(chan struct{}, 1)}
	if s.path == "" {
		return s, nil
	}
	s.lock = flock.New(s.path+".lock", flock.SetPermissions(0o600))
	switch locked, err := s.lock.TryLock(); {
	case err != nil:
		return nil, err
	case !locked:
		return nil, fmt.Errorf("%s is in use by another node; each needs a file of its own", s.path)
	}
	s.load()
	return s, nil
}

func (s *snapshots) load() {
	loaded, err := s.cluster.Restore(s.path, s.now)
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
				return
			case <-ticker.C:
				s.save(ctx)
			}
		}
	})
}

// stop ends the saving now and then, and lets another node have the file.
func (s *snapshots) stop() error {
	s.cancel()
	s.worker.Wait()
	if s.lock == nil {
		return nil
	}
	return s.lock.Unlock()
}

// save saves once. A disk that does not answer is waited for until the context
// ends; it may finish later.
func (s *snapshots) save(ctx context.Context) {
	if s.path == "" || s.refused {
		return
	}
	select {
	case s.saving <- struct{}{}:
	case <-ctx.Done():
		s.log.Error("the snapshot could not be saved", "file", s.path, "error", "another save is under way")
		return
	}
	saved := make(chan struct{})
	go func() {
		defer close(saved)
		defer func() { <-s.saving }()
		n, err := s.cluster.Save(s.path, s.now)
		if err != nil {
			s.log.Error("the snapshot could not be saved", "file", s.path, "error", err)
			return
		}
		s.log.Debug("snapshot saved", "file", s.path, "buckets", n)
	}()
	select {
	case <-saved:
	case <-ctx.Done():
		s.log.Error("the snapshot is not saved in time", "file", s.path)
	}
}
