// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/jobs"
	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/oci"
)

// KindNotice is the kind of jobs that send notices: ids and what happened, as all can read them.
const KindNotice = "notice"

// SignatureHeader carries the time of a notice and its signature: t=SECONDS,v1=HEX,
// an HMAC-SHA-256 of the seconds since 1970, a period and the body.
const SignatureHeader = "Okara-Signature"

const (
	noticeTimeout = 15 * time.Second
	maxReply      = 64 << 10 // read of an answer, so that the connection can be reused
	minSecret     = 16       // bytes
)

// NotifyOptions say where notices go.
type NotifyOptions struct {
	URL    *url.URL // https, or http on loopback
	Secret []byte   // of the signature, at least 16 bytes
	// Transport must refuse addresses that are not public, except those that the settings name.
	Transport http.RoundTripper
	View      func(context.Context) (lifecycle.View, error)
	UserAgent string
	Now       func() time.Time // nil: time.Now
}

// Notifier notifies a receiver of what happens to instances, at least once.
type Notifier struct {
	o      NotifyOptions
	client *http.Client
}

// NewNotifier returns a notifier, or why the options are invalid, without the URL and its password.
func NewNotifier(o NotifyOptions) (*Notifier, error) {
	switch {
	case o.URL == nil || o.URL.Host == "":
		return nil, errors.New("notify: url is not the address of a receiver")
	case o.URL.User != nil || o.URL.Fragment != "":
		return nil, errors.New("notify: url has a user or a fragment")
	case o.URL.Scheme != "https" && (o.URL.Scheme != "http" || !netaddr.IsLoopback(o.URL.Host)):
		return nil, errors.New("notify: url must be https")
	case len(o.Secret) < minSecret:
		return nil, fmt.Errorf("notify: the secret has %d bytes, at least %d required", len(o.Secret), minSecret)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Notifier{o: o, client: &http.Client{
		Transport:     o.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       noticeTimeout,
	}}, nil
}

// NoticeBody is what a receiver gets: no parameters, outputs, connection or text of the tool.
type NoticeBody struct {
	Event    string    `json:"event"` // id: the same when the notice is repeated
	Kind     string    `json:"kind"`
	At       time.Time `json:"at"`
	Template string    `json:"template"`
	ID       string    `json:"id,omitempty"` // of the instance; "": the notice is about the template

	// The rest is the current state, and absent if the instance is no longer recorded.
	Name      string            `json:"name,omitempty"`
	Phase     lifecycle.Phase   `json:"phase,omitempty"`
	Owner     *template.Owner   `json:"owner,omitempty"`
	ExpiresAt time.Time         `json:"expires_at,omitzero"`
	Counts    *lifecycle.Counts `json:"counts,omitempty"` // of the plan that waits for approval, or that shows drift
	OfferedTo *template.Owner   `json:"offered_to,omitempty"`
	Left      []string          `json:"left,omitempty"` // addresses that its runs left behind
}

func noticeJob(id, template string, n lifecycle.Notice) jobs.Job {
	return jobs.Job{Kind: KindNotice, Data: map[string]string{
		"event": n.ID, "kind": n.Kind, "at": n.At.UTC().Format(time.RFC3339), "id": id, "template": template,
	}}
}

// Do implements [jobs.Handler]: it notifies the receiver of one event.
func (n *Notifier) Do(ctx context.Context, j jobs.Job) (string, error) {
	body, err := n.noticeBody(ctx, j)
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(body)
	if err != nil {
		return "", jobs.Permanent(fmt.Errorf("encode notice: %w", err))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.o.URL.String(), bytes.NewReader(b))
	if err != nil {
		return "", jobs.Permanent(errors.New("the receiver of notices has no valid address"))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", n.o.UserAgent)
	req.Header.Set(SignatureHeader, signNotice(n.o.Secret, n.o.Now(), b))
	resp, err := n.client.Do(req)
	if err != nil {
		if uerr, ok := errors.AsType[*url.Error](err); ok {
			err = uerr.Err // its text repeats the URL, which may have a token in it
		}
		return "", fmt.Errorf("notifying %s: %w", n.o.URL.Host, err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxReply) // if this fails, the connection is not reused
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		return "delivered: " + strconv.Itoa(resp.StatusCode), nil
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return "", fmt.Errorf("notifying %s: it redirects, and no redirect is followed", n.o.URL.Host)
	}
	return "", fmt.Errorf("notifying %s: status %d", n.o.URL.Host, resp.StatusCode)
}

// noticeBody returns the notice of a job, with the current state of the instance.
func (n *Notifier) noticeBody(ctx context.Context, j jobs.Job) (NoticeBody, error) {
	at, err := time.Parse(time.RFC3339, j.Data["at"])
	if err != nil {
		return NoticeBody{}, jobs.Permanent(fmt.Errorf("damaged notice: %w", oci.ErrCorrupt))
	}
	b := NoticeBody{Event: j.Data["event"], Kind: j.Data["kind"], At: at, Template: j.Data["template"], ID: j.Data["id"]}
	view, err := n.o.View(ctx)
	if err != nil {
		return b, err
	}
	rec := view.Document.Records[b.ID]
	if rec == nil {
		return b, nil
	}
	b.Name = rec.Name
	b.Phase = rec.Phase
	b.ExpiresAt = rec.ExpiresAt
	if rec.Owner != (template.Owner{}) {
		b.Owner = &rec.Owner
	}
	b.Left = rec.Left
	if rec.Offer != nil {
		b.OfferedTo = &rec.Offer.To
	}
	if rec.Run != nil {
		b.Counts = rec.Run.Counts
	}
	return b, nil
}

func signNotice(secret []byte, now time.Time, body []byte) string {
	t := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(t + "."))
	mac.Write(body)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}
