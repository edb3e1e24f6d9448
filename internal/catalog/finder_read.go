// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/search"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// Requests for an item: its list, and the newest version if that changed.
const (
	listCost    = 1
	versionCost = 5 // manifest, description or documentation, referrers, report, and the list
	checkCost   = 3 // for each version that a policy checks
)

// readEntry updates the entry of an item, and returns the maximum number of requests made.
func (f *Finder) readEntry(ctx context.Context, it addr.Item, force bool) (requests int, err error) {
	now := f.now()
	f.mu.Lock()
	e := f.entry(it)
	f.mu.Unlock()
	e.Listed = now
	l, err := f.c.Versions(ctx, it)
	switch {
	case errors.Is(err, oci.ErrNotFound):
		e = search.Entry{Kind: it.Kind, Address: it.String(), Listed: now, Read: now}
		f.storeEntry(e)
		return listCost, nil
	case err != nil:
		f.storeFailed(e, now)
		return listCost, err
	}
	v, ok := l.Latest()
	tags := tagsHash(l, v)
	if !force && e.Tags == tags && now.Sub(e.Read) < rereadAge {
		f.storeEntry(e)
		return listCost, nil
	}
	requests = versionCost
	if _, _, policy := f.c.policy.requirement(it.Repository(f.c.layout)); policy {
		requests += checkCost * len(l.Listing.Versions)
	}
	fresh := search.Entry{Kind: it.Kind, Address: it.String(), Tags: tags, Listed: now, Read: now}
	if ok {
		err = f.describeVersion(ctx, it, v, l, &fresh)
	}
	if err != nil {
		f.storeFailed(e, now)
		return requests, err
	}
	f.storeEntry(fresh)
	return requests, nil
}

// storeFailed keeps an entry that could not be read, until it is tried again after others.
func (f *Finder) storeFailed(e search.Entry, now time.Time) {
	e.Listed = now.Add(retryAfter - refreshEvery)
	f.storeEntry(e)
}

func (f *Finder) storeEntry(e search.Entry) {
	e.Trim()
	f.mu.Lock()
	defer f.mu.Unlock()
	old, had := f.entries[e.Key()]
	f.entries[e.Key()] = e
	f.unsaved = true
	if !had || !isSameEntry(old, e) {
		f.stale = true
	}
}

// isSameEntry reports whether two entries have the same content.
func isSameEntry(a, b search.Entry) bool {
	sameTime := a.Time.Equal(b.Time)
	a.Time, a.Listed, a.Read = b.Time, b.Listed, b.Read
	return sameTime && reflect.DeepEqual(a, b)
}

// tagsHash identifies the tags and the newest version of a list.
func tagsHash(l *Versions, newest addr.Version) string {
	h := sha256.New()
	for _, t := range l.Listing.Tags {
		h.Write([]byte(t + "\n"))
	}
	h.Write([]byte("\n" + newest.String()))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// describeVersion fills in the fields that describe the newest version.
func (f *Finder) describeVersion(ctx context.Context, it addr.Item, v addr.Version, l *Versions, e *search.Entry) error {
	e.Version = v.String()
	e.Deprecated = l.Listing.Status(v).Deprecated != nil
	var manifest oci.Descriptor
	var annotations map[string]string
	switch it.Kind {
	case addr.KindModule:
		mv, err := f.c.ModuleVersion(ctx, it.Module, v)
		if err != nil {
			return err
		}
		manifest = mv.Manifest
		annotations = mv.Annotations
		d, err := f.c.Description(ctx, mv)
		if err != nil && !errors.Is(err, oci.ErrCorrupt) {
			return err
		}
		describeModule(d, e)
	case addr.KindTemplate:
		t, body, err := f.c.TemplateVersion(ctx, it.Template, v)
		if err != nil {
			return err
		}
		manifest = t.Manifest.Descriptor
		describeTemplate(it.Template, body, e)
	default:
		pv, err := f.c.ProviderVersion(ctx, it.Provider, v)
		if err != nil {
			return err
		}
		manifest = pv.Index
		annotations = pv.Annotations
		e.Signed = len(pv.Meta.SignatureBytes) > 0
		if e.Resources, err = f.documentedNames(ctx, it, pv); err != nil {
			return err
		}
	}
	e.Digest = manifest.Digest.String()
	e.Description = cmp.Or(annotations[annDescription], e.Description)
	e.Time = l.Listing.Published(v, annotations)
	_, signed := slices.BinarySearch(l.Listing.Tags, strings.Replace(e.Digest, ":", "-", 1)+".sig")
	e.Signed = e.Signed || signed
	r, err := f.c.client.Repo(it.Repository(f.c.layout))
	if err != nil {
		return err
	}
	var scan evidence.ScanSummary
	ok := false
	refs := &evidence.Referrers{Repo: r, Subject: manifest}
	listed, err := refs.Signed(ctx)
	if err == nil {
		e.Signed = e.Signed || listed // some signatures have no tag
		scan, ok, err = evidence.NewestScan(ctx, refs)
	}
	if err == nil && ok {
		e.Scan = scanLevel(scan)
	}
	if errors.Is(err, oci.ErrNotFound) || errors.Is(err, oci.ErrCorrupt) || errors.Is(err, oci.ErrUnsupported) {
		return nil
	}
	return err
}

const annDescription = "org.opencontainers.image.description"

func scanLevel(s evidence.ScanSummary) string {
	switch {
	case s.Critical > 0:
		return search.ScanCritical
	case s.High > 0:
		return search.ScanHigh
	case s.Medium > 0:
		return search.ScanMedium
	case s.Low > 0:
		return search.ScanLow
	}
	return search.ScanClean
}

// documentedNames returns the documented resources and data sources of a provider.
func (f *Finder) documentedNames(ctx context.Context, it addr.Item, pv *ProviderVersion) ([]string, error) {
	docs, err := f.c.Docs(ctx, pv)
	if err != nil || docs == nil || docs.Docs == nil {
		return nil, err
	}
	var names []string
	for _, p := range docs.Pages {
		if p.Kind == description.Resource || p.Kind == description.Data {
			names = append(names, it.Provider.Type+"_"+path.Base(p.Path))
		}
	}
	return names, nil
}

// describeModule fills in the fields that come from the description of a module: those of
// its root, and the resources of its submodules too.
func describeModule(m artifact.ModuleDescription, e *search.Entry) {
	d := m.Root
	e.Inputs = d.InputOrder
	for _, part := range slices.Concat([]artifact.DescribedModule{d}, m.Submodules) {
		for _, r := range part.Resources {
			e.Resources = append(e.Resources, r.Type)
		}
	}
	for _, sub := range m.Submodules {
		e.Submodules = append(e.Submodules, path.Base(sub.Path))
	}
	for _, c := range d.ModuleCalls {
		e.Calls = append(e.Calls, c.Source)
	}
	var words strings.Builder
	for _, v := range d.Variables() {
		words.WriteString(v.Description + "\n")
	}
	if d.Readme != nil {
		if heading := markdownHeading().FindStringSubmatch(search.Cut(d.Readme.Text, 4<<10)); heading != nil {
			e.Heading = FirstWords(heading[1])
		}
		e.Description = FirstWords(d.Readme.Text)
		words.WriteString(d.Readme.Text)
	}
	e.Texts = frequentWords(words.String())
}

// frequentWords returns the most frequent words of a text, without short and long ones.
func frequentWords(markdown string) []string {
	const shortest, longest, limit = 4, 32, 64 << 10
	bare := markdownImage().ReplaceAllString(search.Cut(markdown, limit), " ")
	bare = markdownTag().ReplaceAllString(markdownLink().ReplaceAllString(bare, "$1"), " ")
	count := map[string]int{}
	for word := range strings.FieldsFuncSeq(strings.ToLower(bare), search.IsBreak) {
		if len(word) >= shortest && len(word) <= longest {
			count[word]++
		}
	}
	words := slices.SortedFunc(maps.Keys(count), func(a, b string) int { return cmp.Or(count[b]-count[a], strings.Compare(a, b)) })
	return slices.Clone(words[:min(len(words), search.MaxTexts)])
}

// describeTemplate fills in the fields that come from a template's JSON.
func describeTemplate(name string, body []byte, e *search.Entry) {
	var doc struct {
		Template map[string]struct {
			Title       string `json:"title"`
			Description string `json:"description"`
		} `json:"template"`
	}
	if json.Unmarshal(body, &doc) == nil {
		e.Heading = doc.Template[name].Title
		e.Description = cmp.Or(doc.Template[name].Description, e.Heading)
	}
}

var (
	markdownHeading = text.Pattern(`(?m)^#+[ \t]+(.+)$`)
	markdownImage   = text.Pattern(`!\[[^\]\[]*\]\((?:[^()]|\([^()]*\))*\)`)
	markdownLink    = text.Pattern(`\[([^\]\[]*)\]\((?:[^()]|\([^()]*\))*\)`)
	markdownTag     = text.Pattern(`<[^>]*>`)
	markdownNote    = text.Pattern(`\[\^[^\]]*\]|(^|\s):[a-z0-9_+-]+:`) // of a footnote, or a picture by its name
)

// FirstWords returns a readme's first paragraph, as plain text.
func FirstWords(markdown string) string {
	const lines = 200
	var text []string
	code := false
	for n, line := range strings.SplitN(markdown, "\n", lines+1) {
		line = strings.TrimSpace(line)
		if fence := strings.HasPrefix(line, "```"); fence || code || n == lines {
			code = code != fence
			continue
		}
		skip := line == "" || strings.IndexByte("#|<!=->*+", line[0]) >= 0 || strings.HasPrefix(line, "[!") || len(line) > 4000
		if skip && len(text) > 0 {
			break
		}
		if skip {
			continue
		}
		text = append(text, line)
	}
	joined := markdownImage().ReplaceAllString(strings.Join(text, " "), "")
	joined = markdownTag().ReplaceAllString(markdownLink().ReplaceAllString(joined, "$1"), "")
	joined = markdownNote().ReplaceAllString(joined, "")
	joined = strings.NewReplacer("`", "", "**", "", "__", "").Replace(joined)
	return strings.Join(strings.Fields(joined), " ")
}
