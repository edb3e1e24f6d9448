// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// writeEntry writes one entry. target is that of a link, and in the content of a file.
func (u *unpacker) writeEntry(ctx context.Context, name string, mode fs.FileMode, target string, in io.Reader) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	name = strings.TrimPrefix(name, "./")
	if mode.IsDir() {
		if name = strings.TrimSuffix(name, "/"); name == "" || name == "." {
			return nil
		}
	}
	if err := CheckName(name); err != nil {
		return err
	}
	switch {
	case mode.IsDir():
		return u.makeDir(name)
	case mode.IsRegular():
		return u.writeFile(name, mode, in)
	case mode.Type() == fs.ModeSymlink && u.links:
		return u.link(name, target)
	case mode.Type() == fs.ModeSymlink:
		return fmt.Errorf("%q: symbolic link to %.80q: %w", name, target, ErrUnsafe)
	}
	return fmt.Errorf("%q: not a file, folder or symbolic link: %w", name, ErrUnsafe)
}

// recordEntry records the entry at a path, and refuses a second one.
func (u *unpacker) recordEntry(name string, kind fs.FileMode) error {
	if _, ok := u.seen[name]; ok {
		return fmt.Errorf("duplicate entry %q: %w", name, ErrUnsafe)
	}
	if u.seen == nil {
		u.seen = map[string]fs.FileMode{}
	}
	u.seen[name] = kind
	return u.used.countEntry(name, kind, u.limits)
}

// makeDir creates a directory and those above it.
func (u *unpacker) makeDir(name string) error {
	var missing []string
	for ; name != "."; name = path.Dir(name) {
		kind, ok := u.seen[name]
		if ok && !kind.IsDir() {
			return fmt.Errorf("%q is a file and a folder: %w", name, ErrUnsafe)
		}
		if ok {
			break
		}
		missing = append(missing, name)
	}
	for _, name := range slices.Backward(missing) {
		if err := u.recordEntry(name, fs.ModeDir); err != nil {
			return err
		}
		if u.root == nil {
			continue
		}
		if err := u.root.Mkdir(name, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) writeFile(name string, mode fs.FileMode, in io.Reader) (err error) {
	if err := u.makeDir(path.Dir(name)); err != nil {
		return err
	}
	if err := u.recordEntry(name, 0); err != nil {
		return err
	}
	to := io.Discard
	if u.root != nil {
		perm := fs.FileMode(0o644)
		if mode&0o100 != 0 {
			perm = 0o755
		}
		out, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if err != nil {
			return err
		}
		defer func() {
			if err2 := out.Close(); err == nil {
				err = err2
			}
		}()
		to = out
	}
	limit := min(u.limits.FileSize, u.limits.Bytes-u.used.bytes)
	content := source{r: in}
	n, err := io.Copy(to, io.LimitReader(&content, limit+1))
	u.used.bytes += n
	switch {
	case n > limit:
		return fmt.Errorf("%q expands to more than %d bytes: %w", name, limit, ErrTooLarge)
	case content.err != nil:
		return u.brokenError(fmt.Sprintf("%q", name), content.err)
	}
	return err // of the disk
}

// link records a link. No directory of a path is one, so leading .. are literal; after a name they
// are refused, since that may be a link: links never leave the directory.
func (u *unpacker) link(name, target string) error {
	fits := target != "" && len(target) <= maxPath
	legible := utf8.ValidString(target) && !strings.ContainsFunc(target, unicode.IsControl)
	if !fits || !legible || path.IsAbs(target) || strings.Contains(target, `\`) {
		return fmt.Errorf("%q: a link to %.80q, which is not inside the archive: %w", name, target, ErrUnsafe)
	}
	if !fs.ValidPath(path.Join(path.Dir(name), target)) || climbsUp(target) {
		return fmt.Errorf("%q: link to %.80q outside the folder: %w", name, target, ErrUnsafe)
	}
	if err := u.makeDir(path.Dir(name)); err != nil {
		return err
	}
	if err := u.recordEntry(name, fs.ModeSymlink); err != nil {
		return err
	}
	u.later = append(u.later, link{name, target})
	return u.used.addName(target)
}

// climbsUp reports whether a path has .. after a name.
func climbsUp(target string) bool {
	named := false
	for element := range strings.SplitSeq(target, "/") {
		switch element {
		case "", ".":
		case "..":
			if named {
				return true
			}
		default:
			named = true
		}
	}
	return false
}

// writeLinks creates the links, so that nothing was written through one.
func (u *unpacker) writeLinks() error {
	if u.root == nil {
		return nil
	}
	for _, l := range u.later {
		if err := u.root.Symlink(l.target, l.name); err != nil {
			return err
		}
	}
	return nil
}
