// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

// ModuleRegistry is a module registry with the modules.v1 protocol.
type ModuleRegistry struct {
	Client *Client
	Host   string   // host whose discovery document gives modules.v1
	Base   *url.URL // if set, it replaces discovery
}

func (r *ModuleRegistry) modulesURL(ctx context.Context) (*url.URL, error) {
	if r.Base != nil {
		return r.Base, nil
	}
	return r.Client.discoverService(ctx, r.Host, "modules.v1")
}

// Versions lists the versions that okara can store, highest first; those that differ only after "+"
// in the origin's order. An unknown module gives oci.ErrNotFound.
func (r *ModuleRegistry) Versions(ctx context.Context, m addr.Module) ([]addr.Version, error) {
	base, err := r.modulesURL(ctx)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Modules []struct {
			Versions []struct{ Version string }
		}
	}
	if _, err := r.Client.getJSON(ctx, base.JoinPath(m.Namespace, m.Name, m.System, "versions"), &doc); err != nil {
		return nil, fmt.Errorf("listing the versions of %s: %w", m, err)
	}
	if len(doc.Modules) == 0 {
		return nil, fmt.Errorf("listing the versions of %s: the response contains no module: %w", m, oci.ErrCorrupt)
	}
	var out []addr.Version
	for _, v := range doc.Modules[0].Versions {
		if parsed, ok := takeVersion(ctx, v.Version, addr.VersionFromOrigin); ok {
			out = append(out, parsed)
		}
	}
	slices.SortStableFunc(out, func(a, b addr.Version) int { return b.Number().Compare(a.Number()) })
	return slices.Compact(out), nil
}

// Location returns the location of the tree of one version. It accepts both
// forms of the answer: the X-Terraform-Get header, and OpenTofu's JSON body.
func (r *ModuleRegistry) Location(ctx context.Context, m addr.Module, v addr.Version) (Location, error) {
	base, err := r.modulesURL(ctx)
	if err != nil {
		return Location{}, err
	}
	u := base.JoinPath(m.Namespace, m.Name, m.System, v.String(), "download")
	resp, err := r.Client.sendGet(ctx, u, true)
	if err != nil {
		return Location{}, fmt.Errorf("requesting %s %s: %w", m, v, err)
	}
	defer resp.Body.Close()
	ref := resp.Header.Get(getHeader)
	if ref == "" {
		if ref, err = locationBody(resp); err != nil {
			return Location{}, fmt.Errorf("requesting %s %s: %w", m, v, err)
		}
	}
	l, err := parseAnswer(resp, ref)
	if err != nil {
		return Location{}, fmt.Errorf("%s %s: %w", m, v, err)
	}
	l.ModuleDir, err = url.PathUnescape(resp.Header.Get(ModuleDirHeader))
	if err != nil || l.ModuleDir != "" && !fs.ValidPath(l.ModuleDir) {
		return Location{}, fmt.Errorf("%s %s: %q is not a folder: %w", m, v, text.Excerpt(l.ModuleDir), oci.ErrCorrupt)
	}
	return l, nil
}

// ModuleDirHeader names, in okara's answer to a download, the folder of the
// package in which the module is and that users write themselves, escaped.
const ModuleDirHeader = "Okara-Module-Dir"

// getHeader names the address of a module in an answer.
const getHeader = "X-Terraform-Get"

// parseAnswer parses the address in an answer, which may be relative.
func parseAnswer(resp *http.Response, ref string) (Location, error) {
	if strings.HasPrefix(ref, "/") || strings.HasPrefix(ref, "./") || strings.HasPrefix(ref, "../") {
		abs, err := resp.Request.URL.Parse(ref)
		if err != nil {
			return Location{}, fmt.Errorf("%s names an invalid address: %w", formatURL(resp.Request.URL), oci.ErrCorrupt)
		}
		ref = abs.String()
	}
	return ParseLocation(ref)
}

func locationBody(resp *http.Response) (string, error) {
	if t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return "", fmt.Errorf("no location in the response: %w", oci.ErrCorrupt)
	}
	b, err := readAll(resp.Body, maxSums)
	if err != nil {
		return "", err
	}
	var doc struct{ Location string }
	if json.Unmarshal(b, &doc) != nil || doc.Location == "" {
		return "", fmt.Errorf("no location in the response: %w", oci.ErrCorrupt)
	}
	return doc.Location, nil
}

// Kind says how the tree of a Location is fetched.
type Kind string

// The kinds of module sources that okara fetches.
const (
	KindArchive Kind = "archive" // one zip or tar.gz over https
	KindGit     Kind = "git"
	KindOCI     Kind = "oci"
)

// Location is a parsed module source address in the syntax of OpenTofu and
// Terraform. Reference: "Module Sources" in OpenTofu's documentation.
type Location struct {
	Kind      Kind
	URL       *url.URL // without the subdirectory and the arguments below
	Ref       string   // git: branch, tag or commit; oci: tag or digest; "" is the default
	Subdir    string   // directory in the fetched tree
	ModuleDir string   // directory that users of the module name themselves, if the origin is okara
	Local     bool     // git: URL may be a local path

	Checksum digest.Digest // archive: of its bytes; "": none given
	Asked    bool          // archive: URL names no archive, so it is asked for another address
}

// ParseLocation parses a source address. Kinds that okara does not fetch (hg::,
// s3::, gcs::, local paths) wrap oci.ErrUnsupported.
func ParseLocation(s string) (Location, error) {
	forced, rest, _ := cutForced(s)
	rest = expandShorthand(rest)
	if forced == "" && strings.HasPrefix(rest, "git::") {
		forced = "git"
		rest = strings.TrimPrefix(rest, "git::")
	}
	rest, sub := cutSubdir(rest)
	u, err := url.Parse(rest)
	if err != nil || u.Scheme == "" {
		return Location{}, oci.Unsupported("module source %q is not an address okara can fetch", Redact(s))
	}
	l := Location{URL: u, Subdir: sub}
	q := u.Query()
	switch {
	case forced == "git", forced == "" && (u.Scheme == "ssh" || strings.HasSuffix(u.Path, ".git")):
		if !gitScheme(u) {
			return Location{}, oci.Unsupported("module source %q: git repositories are read over https and ssh", Redact(s))
		}
		l.Kind = KindGit
		l.Ref = q.Get("ref")
		q.Del("ref")
		q.Del("depth")
	case forced == "" && u.Scheme == "oci":
		l.Kind = KindOCI
		l.Ref = q.Get("digest")
		if l.Ref == "" {
			l.Ref = q.Get("tag")
		}
		q = url.Values{}
	case forced == "" && (u.Scheme == "https" || u.Scheme == "http"):
		l.Kind = KindArchive
		if l.Checksum, err = parseChecksum(q.Get("checksum")); err != nil {
			return Location{}, fmt.Errorf("module source %q: %w", Redact(s), err)
		}
		l.Asked = q.Get("archive") == "" && !hasArchiveName(u.Path)
		q.Del("archive")
		q.Del("checksum")
	default:
		return Location{}, oci.Unsupported("module source %q: okara fetches git, oci and https archives only", Redact(s))
	}
	u.RawQuery = q.Encode()
	return l, nil
}

// parseChecksum parses the argument checksum of an archive: a hash with or without the name of its
// algorithm. The fetcher of the tools also accepts md5, sha1 and files of checksums.
func parseChecksum(s string) (digest.Digest, error) {
	if s == "" {
		return "", nil
	}
	d := digest.Digest(strings.ToLower(s))
	switch len(s) {
	case digest.SHA256.Size() * 2:
		d = "sha256:" + d
	case digest.SHA512.Size() * 2:
		d = "sha512:" + d
	}
	if err := d.Validate(); err != nil {
		return "", oci.Unsupported("only sha256 and sha512 checksums are supported, not %q", s)
	}
	return d, nil
}

// gitScheme reports whether the URL of a git repository is acceptable from an untrusted origin: not
// a local path, nor one that runs a command. Without TLS only loopback is accepted.
func gitScheme(u *url.URL) bool {
	encrypted := u.Scheme == "https" || u.Scheme == "ssh"
	onThisMachine := u.Scheme == "http" && netaddr.IsLoopback(u.Hostname())
	looksLikeOption := strings.HasPrefix(u.Hostname(), "-") || strings.HasPrefix(u.User.Username(), "-")
	return (encrypted || onThisMachine) && u.Host != "" && !looksLikeOption
}

// LocalGit returns the location of git::file:///PATH, a repository on this
// machine. It is only for addresses that the user has written; ParseLocation,
// which parses answers of origins, refuses them.
func LocalGit(s string) (Location, bool) {
	path, ok := strings.CutPrefix(s, "git::file://")
	path, sub := cutSubdir(path)
	if !ok || !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#") {
		return Location{}, false
	}
	return Location{Kind: KindGit, URL: &url.URL{Scheme: "file", Path: path}, Subdir: sub, Local: true}, true
}

// cutForced splits "git::ADDRESS" into its parts.
func cutForced(s string) (forced, rest string, ok bool) {
	if name, rest, ok := strings.Cut(s, "::"); ok && !strings.ContainsAny(name, ":/.@") {
		return name, rest, true
	}
	return "", s, false
}

// expandShorthand expands the shorthands github.com/…, bitbucket.org/… and git@host:path.
func expandShorthand(s string) string {
	if host, rest, ok := strings.Cut(s, "/"); ok && (host == "github.com" || host == "gitlab.com" || host == "bitbucket.org") {
		parts := strings.SplitN(rest, "/", 3)
		if len(parts) < 2 {
			return s
		}
		name, query, _ := strings.Cut(parts[1], "?")
		out := "git::https://" + host + "/" + parts[0] + "/" + strings.TrimSuffix(name, ".git") + ".git"
		if len(parts) == 3 {
			out += "/" + parts[2]
		}
		if query != "" {
			out += "?" + query
		}
		return out
	}
	if user, rest, ok := strings.Cut(s, "@"); ok && !strings.ContainsAny(user, ":/") && !strings.Contains(s, "://") {
		if host, path, ok := strings.Cut(rest, ":"); ok {
			return "git::ssh://" + user + "@" + host + "/" + path
		}
	}
	return s
}

// cutSubdir removes "//sub/dir" from an address and keeps the query.
func cutSubdir(s string) (rest, sub string) {
	start := 0
	if i := strings.Index(s, "://"); i >= 0 {
		start = i + len("://")
	}
	address, query, hasQuery := strings.Cut(s, "?")
	i := strings.Index(address[min(start, len(address)):], "//")
	if i < 0 {
		return s, ""
	}
	i += start
	rest = address[:i]
	sub = strings.Trim(address[i+2:], "/")
	if hasQuery {
		rest += "?" + query
	}
	return rest, sub
}

// Redact removes user and query from the addresses in a message.
func Redact(s string) string { return secretParts.ReplaceAllString(s, "$1") }

// secretParts matches the user and the query of every address in a text.
var secretParts = regexp.MustCompile(`(://)[^\s"/@]*@|\?[^\s"]*`)

// maxPages bounds a list, with up to 100 entries per page.
const maxPages = 1000

// List returns the modules of a registry, or of one of its namespaces. A
// registry without lists gives oci.ErrNotFound.
func (r *ModuleRegistry) List(ctx context.Context, namespace string) ([]addr.Module, error) {
	base, err := r.modulesURL(ctx)
	if err != nil {
		return nil, err
	}
	var out []addr.Module
	u := base.JoinPath(namespace)
	for offset := 0; offset/100 < maxPages; offset += 100 {
		page := *u
		page.RawQuery = url.Values{"limit": {"100"}, "offset": {strconv.Itoa(offset)}}.Encode()
		var doc struct {
			Meta struct {
				NextOffset int `json:"next_offset"`
			}
			Modules []struct{ Namespace, Name, Provider string }
		}
		if _, err := r.Client.getJSON(ctx, &page, &doc); err != nil {
			return nil, fmt.Errorf("listing the modules of %s: %w", r.Host, err)
		}
		for _, m := range doc.Modules {
			if parsed, err := addr.ParseModule(m.Namespace + "/" + m.Name + "/" + m.Provider); err == nil {
				out = append(out, parsed)
			}
		}
		if doc.Meta.NextOffset <= offset || len(doc.Modules) == 0 {
			break
		}
	}
	return out, nil
}
