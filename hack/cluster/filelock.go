// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	tempDirPattern = "berth-cluster-*"
	ownerLock      = "owner.lock"
)

// fileLock is an advisory lock; the kernel drops it when its holder ends, however that happens.
type fileLock struct{ f *os.File }

// lockFile waits for the lock on a file, which it creates if need be.
func lockFile(ctx context.Context, path string) (*fileLock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return &fileLock{f}, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("wait for the lock on %s: %w", path, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (l *fileLock) unlock() { l.f.Close() }

// ownDir marks a directory as in use for as long as this process lives. The mark appears locked, so that no one takes the
// directory for abandoned in between.
func ownDir(dir string) (*fileLock, error) {
	unmarked := filepath.Join(dir, ownerLock+".new")
	l, err := lockFile(context.Background(), unmarked)
	if err != nil {
		return nil, err
	}
	if err := os.Rename(unmarked, filepath.Join(dir, ownerLock)); err != nil {
		l.unlock()
		return nil, err
	}
	return l, nil
}

// removeAbandonedDirs removes the directories of clusters whose owner was killed before it could: their lock is free.
func removeAbandonedDirs() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), tempDirPattern))
	for _, dir := range dirs {
		f, err := os.OpenFile(filepath.Join(dir, ownerLock), os.O_RDWR, 0)
		if err != nil {
			continue // being made or removed just now, or not ours
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		f.Close()
	}
}

// Lock takes a lock of the given name, shared by all processes of this user, and waits until it is free. It ends with
// unlock or with this process.
func Lock(ctx context.Context, name string) (unlock func(), err error) {
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	l, err := lockFile(ctx, filepath.Join(cache, "locks", ShortHash(name)))
	if err != nil {
		return nil, err
	}
	return l.unlock, nil
}
