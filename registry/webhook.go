// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/jobs"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/text"
)

const (
	// maxHook bounds the body of a webhook, in bytes. A push of a tag has about 10 KiB.
	maxHook = 5 << 20
	// maxHookName bounds the names in it, which are recorded, in bytes. GitHub's have at most 255.
	maxHookName = 1 << 10
)

// deliveryRE matches the id that GitHub gives a delivery, a GUID.
var deliveryRE = text.Pattern(`^[0-9A-Za-z-]{1,64}$`)

var commitRE = text.Pattern(`^[0-9a-f]{40}$`)

// hookDoc is the answer to a webhook, which GitHub shows beside the delivery.
type hookDoc struct {
	Result  string `json:"result"`           // accepted, duplicate, ignored, pong
	Reason  string `json:"reason,omitempty"` // why ignored; for a duplicate, the result of the first delivery
	Module  string `json:"module,omitempty"`
	Version string `json:"version,omitempty"`
}

type hookEvent struct {
	owner, repository string
	tag               string
	commit            string // "": the event does not name it
	url               string // of the repository, for messages
}

// ignoredError says why an authentic delivery requires no action.
type ignoredError string

func (e ignoredError) Error() string { return string(e) }

func newIgnored(format string, args ...any) error { return ignoredError(fmt.Sprintf(format, args...)) }

type hooks struct {
	owners  []GitHub
	kit     *service.Kit
	queue   *jobs.Queue
	small   *service.ClientLimiter // one per delivery that is being read
	large   *service.ClientLimiter // the same, for large deliveries
	layout  addr.Layout
	catalog *catalog.Catalog
	depot   *depot.Depot
	metrics *Metrics
	audit   *slog.Logger // nil: none
	log     *slog.Logger
}

// receive accepts a webhook of GitHub. The work is recorded before the answer and done after it.
func (h *hooks) receive(w http.ResponseWriter, r *http.Request) error {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return &service.Error{Status: http.StatusUnsupportedMediaType, Text: "set the content type of the webhook to application/json"}
	}
	body, owners, err := h.readSigned(r)
	if err != nil {
		return err
	}
	delivery := r.Header.Get("X-GitHub-Delivery")
	if !deliveryRE().MatchString(delivery) {
		return &service.Error{Status: http.StatusBadRequest, Text: "X-GitHub-Delivery is missing or invalid"}
	}
	if r.Header.Get("X-GitHub-Event") == "ping" {
		return writeDocument(w, http.StatusOK, hookDoc{Result: "pong"})
	}
	doc := hookDoc{Result: "accepted"}
	status := http.StatusAccepted
	err = func() error {
		e, err := parseHook(r.Header.Get("X-GitHub-Event"), body)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(owners, func(g *GitHub) bool { return strings.EqualFold(g.Owner, e.owner) })
		if i < 0 {
			return newIgnored("no configuration for %s with this secret", e.owner)
		}
		t, err := owners[i].target(e.repository, e.tag)
		if err != nil {
			return err
		}
		doc.Module = t.Module.Module.String()
		doc.Version = t.Module.Version.String()
		h.kit.Guard.Record(r, access.Record{
			Caller: access.Caller{Mode: "github", Subject: e.String()},
			Right:  rights.Right{Action: rights.Publish, Kind: addr.KindModule, Address: doc.Module}, Rule: "github " + owners[i].Owner,
		})
		id, added, err := h.queue.AddAgain(r.Context(), delivery, e.publishJob(service.RequestID(r)))
		if err == nil && !added {
			doc.Result = "duplicate"
			status = http.StatusOK
			doc.Reason, err = h.queue.Outcome(r.Context(), id)
		}
		return err
	}()
	if reason, ok := errors.AsType[ignoredError](err); ok {
		return writeDocument(w, http.StatusOK, hookDoc{Result: "ignored", Reason: reason.Error()})
	}
	if err != nil {
		return err
	}
	return writeDocument(w, status, doc)
}

// readSigned returns the unparsed body with the owners whose secret signed it.
func (h *hooks) readSigned(r *http.Request) ([]byte, []*GitHub, error) {
	refused := func() ([]byte, []*GitHub, error) {
		h.kit.Guard.Record(r, access.Record{Caller: access.Caller{Mode: "github"}, Right: rights.Right{Action: rights.Publish, Kind: addr.KindModule}})
		return nil, nil, &service.Error{Status: http.StatusUnauthorized, Text: "X-Hub-Signature-256 is missing or does not match a secret of this server"}
	}
	sum, ok := hookSignature(r.Header.Get("X-Hub-Signature-256"))
	if !ok {
		return refused()
	}
	limiter := h.small
	if !service.Small(r.ContentLength) {
		limiter = h.large
	}
	release, ok := limiter.Wait(r.Context(), h.kit.Client(r), 1)
	if !ok {
		return nil, nil, service.TooMany("deliveries")
	}
	defer release()
	service.OpenBody(r) // its signature proves the right
	body, err := io.ReadAll(io.LimitReader(r.Body, maxHook+1))
	if err != nil {
		return nil, nil, &service.Error{Status: http.StatusBadRequest, Text: fmt.Sprintf("the delivery ended early after %d bytes", len(body))}
	}
	if len(body) > maxHook {
		return nil, nil, &service.Error{Status: http.StatusRequestEntityTooLarge, Text: fmt.Sprintf("more than %d bytes", maxHook)}
	}
	var owners []*GitHub
	for i := range h.owners {
		if h.owners[i].hasSigned(body, sum) {
			owners = append(owners, &h.owners[i])
		}
	}
	if len(owners) == 0 {
		return refused()
	}
	return body, owners, nil
}

// hookSignature parses "sha256=" and 64 hexadecimal digits.
func hookSignature(header string) ([]byte, bool) {
	text, ok := strings.CutPrefix(header, "sha256=")
	sum, err := hex.DecodeString(text)
	return sum, ok && err == nil && len(sum) == sha256.Size
}

// hasSigned reports whether a secret of the owner made the signature, comparing in constant time.
func (g GitHub) hasSigned(body, sum []byte) bool {
	found := false
	for _, secret := range g.Secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write(body)
		found = hmac.Equal(mac.Sum(nil), sum) || found
	}
	return found
}

// hookBody holds the fields that are read from the bodies of all events.
type hookBody struct {
	Action     string
	Ref        string
	RefType    string `json:"ref_type"`
	Deleted    bool
	HeadCommit struct{ ID string } `json:"head_commit"`
	Release    struct {
		TagName string `json:"tag_name"`
		Draft   bool
	}
	Repository struct {
		FullName string `json:"full_name"`
		URL      string `json:"html_url"`
	}
}

// parseHook returns the tag that an event is about; without one the error is an ignoredError.
func parseHook(event string, body []byte) (hookEvent, error) {
	var b hookBody
	if err := json.Unmarshal(body, &b); err != nil {
		return hookEvent{}, &service.Error{Status: http.StatusBadRequest, Text: "the body is not an event of GitHub: " + err.Error()}
	}
	var e hookEvent
	switch event {
	case "create":
		if b.RefType != "tag" {
			return e, newIgnored("created a %.20q, not a tag", b.RefType)
		}
		e.tag = b.Ref
	case "push":
		tag, ok := strings.CutPrefix(b.Ref, "refs/tags/")
		switch {
		case !ok:
			return e, newIgnored("the push is not of a tag")
		case b.Deleted:
			return e, newIgnored("the tag was deleted; published versions stay")
		}
		e.tag = tag
		e.commit = b.HeadCommit.ID
	case "release":
		if b.Action != "published" || b.Release.Draft {
			return e, newIgnored("the release was not published")
		}
		e.tag = b.Release.TagName
	default:
		return e, newIgnored("event %.40q is not create, push or release", event)
	}
	var ok bool
	e.owner, e.repository, ok = strings.Cut(b.Repository.FullName, "/")
	if !ok || !e.hasValidNames() {
		return hookEvent{}, &service.Error{Status: http.StatusBadRequest, Text: "the event lacks a valid repository, tag or commit"}
	}
	if u, err := url.Parse(b.Repository.URL); err == nil && u.Host != "" && len(b.Repository.URL) <= maxHookName {
		e.url = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	}
	return e, nil
}

func (e hookEvent) hasValidNames() bool {
	for _, name := range []string{e.owner, e.repository, e.tag} {
		if name == "" || len(name) > maxHookName {
			return false
		}
	}
	return !strings.Contains(e.repository, "/") && (e.commit == "" || commitRE().MatchString(e.commit))
}

// String returns OWNER/REPOSITORY@TAG.
func (e hookEvent) String() string { return e.owner + "/" + e.repository + "@" + e.tag }

const jobGitHub = jobs.KindGitHub

func (e hookEvent) publishJob(request string) jobs.Job {
	return jobs.Job{Kind: jobGitHub, Data: map[string]string{
		"owner": e.owner, "repository": e.repository, "tag": e.tag, "commit": e.commit, "url": e.url, "request_id": request,
	}}
}

func hookEventOf(j jobs.Job) hookEvent {
	return hookEvent{owner: j.Data["owner"], repository: j.Data["repository"], tag: j.Data["tag"], commit: j.Data["commit"], url: j.Data["url"]}
}
