// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/text"
)

// maxFile bounds, in bytes, modules.json and the lock file.
const maxFile = 8 << 20

// Root is the folder of a root module after init.
type Root struct {
	Dir     string // with the lock file
	DataDir string // where init keeps what it fetched
	Part    bool   // of the calls: what the others used, they use
	// ParseLock parses the lock file; nil: the providers are those of the state.
	ParseLock func([]byte) ([]Provider, error)
	// ParseModules parses the lock of modules: digests by the path of a call; nil: there are none.
	ParseModules func([]byte) (map[string]string, error)
	// LiveCalls returns the paths of the calls in modules.json that the configuration still has, as the tools
	// remove none; nil: all are.
	LiveCalls func(dir, dataDir string) (map[string]bool, error)
	Called    []Module // beside those in the list, as the root module if it was published
	// Read reads a file of at most limit bytes; nil: of this machine.
	Read   func(name string, limit int64) ([]byte, error)
	Getenv func(string) string // of CI, and Variable; required
}

// collectFiles reads what init wrote. A file that is not there lists nothing: neither tool writes an
// empty one.
func (r Root) collectFiles(state []byte, was *Document) *Document {
	d := &Document{Recorded: Complete, Modules: slices.Clone(r.Called)}
	read := func(name string, parse func([]byte) error) {
		read := r.Read
		if read == nil {
			read = readFile
		}
		b, err := read(name, maxFile)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil || parse(b) != nil {
			d.Recorded = Partial
		}
	}
	read(filepath.Join(r.DataDir, "modules", "modules.json"), func(b []byte) (err error) {
		var live map[string]bool
		if r.LiveCalls != nil {
			live, err = r.LiveCalls(r.Dir, r.DataDir)
		}
		return errors.Join(err, d.addModules(b, live))
	})
	if r.ParseModules != nil {
		read(filepath.Join(r.Dir, ".okara.lock.hcl"), func(b []byte) error {
			digests, err := r.ParseModules(b)
			for i, m := range d.Modules {
				if len(m.Paths) == 1 && !strings.Contains(m.Source, "digest=") {
					d.Modules[i].Digest = digests[m.Paths[0]]
				}
			}
			return err
		})
	}
	if r.ParseLock == nil {
		d.Providers = FromState(state).Providers
		d.Recorded = Partial
	} else {
		read(filepath.Join(r.Dir, ".terraform.lock.hcl"), func(b []byte) (err error) {
			d.Providers, err = r.ParseLock(b)
			return err
		})
	}
	if r.Part {
		d.boundTexts()
		d.keepOthers(was)
	}
	d.Repository, d.Commit = commitOf(r.Getenv)
	return d
}

func readFile(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return b, err
}

// addModules reads the live calls, or all with nil, of modules.json: https://github.com/opentofu/opentofu/tree/main/internal/modsdir
func (d *Document) addModules(list []byte, live map[string]bool) error {
	var file struct {
		Modules []struct{ Key, Source, Version, Dir string }
	}
	if err := json.Unmarshal(list, &file); err != nil {
		return err
	}
	remote := map[string]bool{} // keys
	for _, m := range file.Modules {
		remote[m.Key] = !isLocal(m.Source)
	}
	for _, m := range file.Modules {
		if m.Key == "" || live != nil && !live[m.Key] { // the root, or gone
			continue
		}
		if len(m.Key) > maxSource {
			d.Recorded = Partial
			continue
		}
		if isLocal(m.Source) {
			if isPart(m.Key, remote) {
				continue
			}
			m.Source = "./" + path.Clean(filepath.ToSlash(m.Dir)) // outside of the root: dropped later
		}
		d.Modules = append(d.Modules, Module{Source: m.Source, Version: m.Version, Paths: []string{m.Key}})
	}
	return nil
}

// isPart reports whether a local module belongs to the package of one that was fetched.
func isPart(key string, remote map[string]bool) bool {
	for i, c := range key {
		if c == '.' && remote[key[:i]] {
			return true
		}
	}
	return false
}

func isLocal(source string) bool {
	return strings.HasPrefix(source, "./") || strings.HasPrefix(source, "../") || strings.HasPrefix(source, `.\`) || strings.HasPrefix(source, `..\`)
}

// commitOf returns the repository and the commit that a CI job is about.
func commitOf(getenv func(string) string) (repository, commit string) {
	repository = getenv("CI_PROJECT_URL")
	if name := getenv("GITHUB_REPOSITORY"); name != "" {
		repository = strings.TrimSuffix(getenv("GITHUB_SERVER_URL"), "/") + "/" + name
	}
	u, err := url.Parse(repository)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", ""
	}
	return u.Scheme + "://" + u.Host + u.Path, cmp.Or(getenv("GITHUB_SHA"), getenv("CI_COMMIT_SHA"))
}

// isRegistry reports whether a source is an address of a module registry, with host and folder.
func isRegistry(source string) bool {
	at, dir, _ := strings.Cut(source, "//")
	parts := strings.Split(at, "/")
	if len(parts) == 4 {
		if _, err := addr.ParseProvider(parts[0] + "/a/b"); err != nil {
			return false
		}
		parts = parts[1:]
	}
	_, err := addr.ParseWritten(strings.Join(parts, "/"))
	return err == nil && !strings.Contains(dir, "?")
}

// cleanSource returns a source without user, password and other arguments, and the digest in it; ""
// if it names nothing outside of one machine.
func cleanSource(source string) (clean, digest string) {
	if len(source) > 4*maxSource || strings.ContainsAny(source, "\x00\r\n\\") {
		return "", ""
	}
	getter, rest, ok := strings.Cut(source, "::")
	if !ok {
		getter, rest = "", source
	}
	if !strings.Contains(rest, "://") {
		local, ok := strings.CutPrefix(source, "./")
		if ok && path.Clean("/"+local) == "/"+local || isRegistry(source) {
			return cutSource(source), ""
		}
		return "", ""
	}
	u, err := url.Parse(rest)
	if err != nil || u.Host == "" || u.Scheme == "file" || getter == "file" {
		return "", ""
	}
	query := u.Query()
	args := url.Values{}
	for _, name := range [...]string{"ref", "tag", "digest"} { // others may be secrets
		if v := query.Get(name); v != "" {
			args.Set(name, v)
		}
	}
	clean = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath, RawQuery: args.Encode()}).String()
	if getter != "" {
		clean = getter + "::" + clean
	}
	return cutSource(clean), query.Get("digest")
}

func cutSource(s string) string {
	if s = text.Line(s); len(s) > maxSource {
		return ""
	}
	return s
}

// FromState takes the providers' addresses from a state, without versions. It looks only at members
// named provider, which no text in the state can imitate, since its quotation marks are escaped.
func FromState(state []byte) *Document {
	d := &Document{Recorded: Partial}
	member := []byte(`"provider":`)
	known := map[string]bool{}
	for len(d.Providers) < maxItems {
		i := bytes.Index(state, member)
		if i < 0 {
			break
		}
		state = state[i+len(member):]
		line := state[:min(len(state), 2*maxSource)]
		_, after, ok := bytes.Cut(line, []byte(`provider[\"`))
		if !ok {
			continue
		}
		address, _, ok := bytes.Cut(after, []byte(`\"]`))
		if ok && !known[string(address)] {
			known[string(address)] = true
			d.Providers = append(d.Providers, Provider{Source: string(address)})
		}
	}
	d.boundTexts()
	return d
}

// Variable turns the record off if it is "off".
const Variable = "OKARA_USAGE"

// Record returns what a store is to record beside each state of a root module, see
// [statebackend.Options]; nil if it is turned off.
func (r Root) Record() func(state, before []byte) []byte {
	return newRecorder(r.Getenv, r.collectFiles)
}

// RecordState is [Root.Record] where only the state is at hand.
func RecordState(getenv func(string) string) func(state, before []byte) []byte {
	return newRecorder(getenv, func(state []byte, _ *Document) *Document { return FromState(state) })
}

// RecordKnown is [Root.Record] of what another process has read.
func RecordKnown(document []byte) func(state, before []byte) []byte {
	return newRecorder(func(string) string { return "" }, func(state []byte, _ *Document) *Document {
		d, err := Parse(document)
		if err != nil {
			d = FromState(state)
		}
		return d
	})
}

// RecordPush is [RecordState] where no run was between: of the version before, the modules stay, and what
// is known of the providers that are in the state.
func RecordPush(getenv func(string) string) func(state, before []byte) []byte {
	return newRecorder(getenv, func(state []byte, was *Document) *Document {
		d := FromState(state)
		if was == nil {
			return d
		}
		d.Modules = was.Modules
		for i, p := range d.Providers {
			for _, known := range was.Providers {
				if known.Source == p.Source {
					d.Providers[i] = known
				}
			}
		}
		return d
	})
}

func newRecorder(getenv func(string) string, collect func(state []byte, was *Document) *Document) func(state, before []byte) []byte {
	if getenv(Variable) == "off" {
		return nil
	}
	return func(state, before []byte) []byte {
		was, err := Parse(before)
		if err != nil {
			was = nil
		}
		d := collect(state, was)
		d.boundTexts()
		if len(d.Modules)+len(d.Providers) == 0 && d.Recorded == Partial {
			return nil
		}
		d.KeepSince(was, time.Now())
		return d.Encode()
	}
}

// Unchanged returns the document for a state that a run left as it is, from the one before, with what record,
// of [Root.Record], returns; nil: the one before says the same, or more.
func Unchanged(record func(state, before []byte) []byte) func(before []byte) []byte {
	return func(before []byte) []byte {
		document := record(nil, before)
		now, err := Parse(document)
		was, wasErr := Parse(before)
		if err != nil || wasErr == nil && (now.saysLess(was) || now.isSame(was)) {
			return nil
		}
		return document
	}
}

// keepOthers adds the modules of the document before in other versions; nil: it is not known.
func (d *Document) keepOthers(was *Document) {
	if was == nil {
		d.Recorded = Partial
		return
	}
	known := d.listVersions()
	for _, m := range was.Modules {
		if !slices.Contains(known, m.Source+" "+m.Version) {
			d.Modules = append(d.Modules, m)
			d.Recorded = Partial
		}
	}
}

// saysLess reports whether what init left could not be read as far as before, and has no other version.
func (d *Document) saysLess(was *Document) bool {
	known := was.listVersions()
	return d.Recorded == Partial && !slices.ContainsFunc(d.listVersions(), func(s string) bool { return !slices.Contains(known, s) })
}

// listVersions returns the sources of modules and providers with their versions.
func (d *Document) listVersions() (list []string) {
	for _, m := range d.Modules {
		list = append(list, m.Source+" "+m.Version)
	}
	for _, p := range d.Providers {
		list = append(list, p.Source+" "+p.Version)
	}
	return list
}

// isSame reports whether both have the same versions, wherever they are called, and from whichever commit.
func (d *Document) isSame(was *Document) bool {
	return d.Recorded == was.Recorded &&
		slices.EqualFunc(d.Modules, was.Modules, func(a, b Module) bool { return a.Source == b.Source && a.Version == b.Version && a.Digest == b.Digest }) &&
		slices.EqualFunc(d.Providers, was.Providers, func(a, b Provider) bool {
			return a.Source == b.Source && a.Version == b.Version && a.Constraints == b.Constraints
		})
}

// CleanSource returns a source as it is recorded: without what may be a secret, "" if it names nothing
// outside of one machine.
func CleanSource(source string) string {
	clean, _ := cleanSource(source)
	return clean
}
