// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
)

// PlainReason is what err says, where the words of Go, of libraries and of registries are replaced by
// plain ones.
func PlainReason(err error) string {
	reason := strings.TrimRight(states.Remedy(err), "\n")
	say := func(inner error, plain string) { reason = strings.ReplaceAll(reason, inner.Error(), plain) }
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		plain := plainPath(e)
		say(e, plain)
		if _, after, again := strings.Cut(reason, e.Path+": "+plain); again { // "reading x: x is a folder"
			reason = plain + after
		}
	}
	if e, ok := errors.AsType[*oci.ResponseError](err); ok && e.Status == http.StatusNotFound && e.HasCode("NAME_UNKNOWN") {
		host, path, _ := strings.Cut(e.URL, "/v2/")
		for _, end := range []string{"/tags/", "/manifests/", "/blobs/", "/referrers/"} {
			path, _, _ = strings.Cut(path, end)
		}
		_, host, _ = strings.Cut(host, "://")
		say(e, "repository "+host+"/"+path+" not found")
	}
	if e, ok := errors.AsType[*client.Error](err); ok && e.Text != "" && e.Text != unknownPath && slices.Contains([]int{http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity}, e.Status) {
		plain := e.Text
		if scheme, rest, _ := strings.Cut(e.URL, "://"); e.Status == http.StatusNotFound { // of which server
			host, _, _ := strings.Cut(rest, "/")
			plain = scheme + "://" + host + ": " + plain
		}
		say(e, plain)
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		say(e, plainNet(e))
	}
	if errors.Is(err, context.DeadlineExceeded) {
		reason = strings.ReplaceAll(reason, " (Client.Timeout exceeded while awaiting headers)", "")
		say(context.DeadlineExceeded, "no response in time")
	}
	for _, end := range []error{fs.ErrNotExist, fs.ErrExist} {
		reason = strings.TrimSuffix(reason, ": "+end.Error())
	}
	if before, ok := strings.CutSuffix(reason, ": "+oci.ErrNotFound.Error()); ok && (strings.Contains(" "+before, " no ") || strings.Contains(before, "nothing ") || strings.Contains(before, "withdrawn")) {
		reason = before
	}
	reason = strings.ReplaceAll(reason, "404 Not Found: not found", "404 Not Found")
	if before, after, ok := strings.Cut(reason, ": "); ok && strings.HasPrefix(after, before+": ") { // the server said it, too
		reason = after
	}
	return reason
}

// unknownPath is what a server says of a path that it does not serve: another server or program is meant.
const unknownPath = "unknown path"

func plainPath(e *fs.PathError) string {
	dir, name := filepath.Split(e.Path)
	temporary := strings.HasPrefix(name, ".okara-") || strings.HasSuffix(name, ".part")
	switch {
	case errors.Is(e, fs.ErrNotExist) && temporary:
		return "folder " + filepath.Clean(dir) + " does not exist"
	case errors.Is(e, fs.ErrNotExist):
		return e.Path + " does not exist"
	case errors.Is(e, fs.ErrExist):
		return e.Path + " already exists"
	case errors.Is(e, syscall.EISDIR):
		return e.Path + " is a folder, not a file"
	case errors.Is(e, syscall.ENOTDIR):
		at := e.Path
		for _, err := os.Stat(at); err != nil && at != filepath.Dir(at); _, err = os.Stat(at) {
			at = filepath.Dir(at)
		}
		return at + " is a file, not a folder"
	}
	return e.Path + ": " + e.Err.Error()
}

// plainNet is a network error without the name of the call.
func plainNet(e *net.OpError) string {
	if name, ok := errors.AsType[*net.DNSError](e); ok && name.IsNotFound {
		return "host " + name.Name + " not found"
	}
	if number, ok := errors.AsType[syscall.Errno](e); ok {
		return number.Error()
	}
	if e.Timeout() {
		return "no response in time"
	}
	return e.Err.Error()
}

// isWrongPath reports whether a file or folder that the user named is missing, or is of the other kind.
func isWrongPath(err error) bool {
	_, temporary := files.NoTemporary(err)
	return hasType[*fs.PathError](err) && !temporary && isAny(err, fs.ErrNotExist, syscall.EISDIR, syscall.ENOTDIR)
}
