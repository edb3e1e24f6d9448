// SPDX-License-Identifier: Apache-2.0

package webtest

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
)

// watcher records what happens in a tab. Every message of the browser about a page is a
// problem, and so is each failed request.
type watcher struct {
	hosts []string // that pages may send requests to

	mu       sync.Mutex // guards the fields below
	problems []string
	page     Page
	asked    map[network.RequestID]*network.Request
	urls     []string // of all requests
}

func newWatcher(hosts ...string) *watcher {
	return &watcher{hosts: hosts, asked: map[network.RequestID]*network.Request{}}
}

func (w *watcher) recordEvent(event any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		w.addProblem("exception: %s", e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		w.addProblem("console: %s", e.Type)
	case *log.EventEntryAdded:
		if e.Entry.Source != log.EntrySourceNetwork { // network errors are reported below
			w.addProblem("console: %s: %s", e.Entry.Level, e.Entry.Text)
		}
	case *audits.EventIssueAdded:
		w.addProblem("issue: %s", issueCode(e.Issue))
	case *network.EventRequestWillBeSent:
		w.recordURL(e)
	case *network.EventResponseReceived:
		if e.Response.Status >= http.StatusBadRequest && !w.formWithMistake(e) {
			w.addProblem("%s is %d", e.Response.URL, e.Response.Status)
		}
	case *network.EventLoadingFailed:
		if r := w.asked[e.RequestID]; r != nil && !e.Canceled {
			w.addProblem("%s: %s %s", r.URL, e.ErrorText, e.BlockedReason)
		}
	case *network.EventLoadingFinished:
		w.page.Bytes += int(e.EncodedDataLength)
	}
}

// issueCode returns the code of a browser issue, with the type of a generic one.
func issueCode(i *audits.InspectorIssue) string {
	if i.Details != nil && i.Details.GenericIssueDetails != nil {
		return fmt.Sprintf("%s: %s", i.Code, i.Details.GenericIssueDetails.ErrorType)
	}
	return string(i.Code)
}

func (w *watcher) recordURL(e *network.EventRequestWillBeSent) {
	w.asked[e.RequestID] = e.Request
	w.urls = append(w.urls, e.Request.URL+e.Request.URLFragment)
	u, err := url.Parse(e.Request.URL)
	if err != nil || !slices.Contains(w.hosts, u.Host) {
		w.addProblem("it asks another host: %s", e.Request.URL)
		return
	}
	asset := strings.Contains(u.Path, "/assets/")
	picture := e.Type == network.ResourceTypeImage && !asset
	icon := e.Type == network.ResourceTypeOther && asset // the tab's icon, which the browser loads once for all pages
	if !picture && !icon && e.Type != network.ResourceTypeEventSource && e.RedirectResponse == nil {
		w.page.Loaded++
	}
}

// formWithMistake reports whether an answer is a submitted form that is shown again with
// its mistakes, the one failure that a page may have.
func (w *watcher) formWithMistake(e *network.EventResponseReceived) bool {
	r := w.asked[e.RequestID]
	return e.Response.Status == http.StatusUnprocessableEntity && e.Type == network.ResourceTypeDocument && r != nil && r.Method == http.MethodPost
}

func (w *watcher) addProblem(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// takeRecorded returns what was recorded since the last call.
func (w *watcher) takeRecorded() (Page, []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.page
	problems := w.problems
	w.page = Page{}
	w.problems = nil
	return p, problems
}

func (w *watcher) requestedURLs() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.urls)
}
