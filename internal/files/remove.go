// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	firstPause = 50 * time.Millisecond // doubles
	maxPause   = 2 * time.Second
	fewEntries = 1000 // entries of a directory in memory
)

// removeFolder removes a directory with one free file descriptor, for which it waits a few seconds,
// unlike [os.RemoveAll].
func removeFolder(dir string, sleep func(time.Duration)) error {
	err := os.RemoveAll(dir)
	for pause := firstPause; isShortOfFiles(err); pause *= 2 {
		if err = removeLean(dir); !isShortOfFiles(err) || pause > maxPause {
			break
		}
		sleep(pause)
	}
	if err != nil {
		return fmt.Errorf("the temporary folder %s was not removed: %w", dir, err)
	}
	return nil
}

// isShortOfFiles reports whether the process or the machine has no file descriptor left.
func isShortOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// removeLean removes dir with one open directory at a time. It follows no links.
func removeLean(dir string) error {
	for {
		entries, err := readSome(dir)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			return os.Remove(dir)
		}
		for _, e := range entries {
			name := filepath.Join(dir, e.Name())
			if e.IsDir() {
				err = removeLean(name)
			} else {
				err = os.Remove(name)
			}
			if err != nil {
				return err
			}
		}
	}
}

func readSome(dir string) (entries []os.DirEntry, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if entries, err = f.ReadDir(fewEntries); err == io.EOF {
		err = nil
	}
	return entries, err
}
