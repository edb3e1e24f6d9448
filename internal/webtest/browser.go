// SPDX-License-Identifier: Apache-2.0

package webtest

import (
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/seed-141914ff/okara/internal/must"
)

// Browser is a Chromium of one test. It can reach only loopback addresses.
type Browser struct {
	ctx   context.Context
	Width int // of tabs whose look has none, 0: 1280
}

// New starts a browser, or skips the test if there is none. OKARA_TEST_CHROMIUM names the
// program, default chromium on PATH.
func New(t *testing.T) *Browser {
	t.Helper()
	program := os.Getenv("OKARA_TEST_CHROMIUM")
	if program == "" {
		var err error
		if program, err = exec.LookPath("chromium"); err != nil {
			t.Skip("no browser: neither OKARA_TEST_CHROMIUM nor chromium on PATH")
		}
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(ctx)
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return &Browser{ctx: ctx}
}

// Look has the settings of a browser that opens pages.
type Look struct {
	Width  int    // of the window, in CSS pixels
	Theme  string // light or dark
	Script bool
	Token  string   // of the user, "" for an anonymous one
	Hosts  []string // hosts that pages may send requests to, beside their own
}

// configureTab configures a new tab, and makes w listen to its events.
func (l Look) configureTab(ctx context.Context, w *watcher) error {
	if err := chromedp.Do(ctx); err != nil {
		return err
	}
	if err := chromedp.Listen(ctx, w.recordEvent); err != nil {
		return err
	}
	_, enabled := chromedp.Call(ctx, audits.Enable, cdp.Empty{})
	_, scripted := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !l.Script})
	var known error
	if l.Token != "" {
		_, known = chromedp.Call(ctx, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Authorization": "Bearer " + l.Token}})
	}
	return errors.Join(enabled, scripted, known, View{l.Width, l.Theme}.setView(ctx))
}

func hostOf(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return ""
	}
	return u.Host
}

// Picture writes a screenshot of a page as PNG.
func (b *Browser) Picture(t *testing.T, at, file string, look Look) {
	t.Helper()
	ctx, end := chromedp.NewContext(b.ctx)
	defer end()
	must.Succeed(t, look.configureTab(ctx, newWatcher(hostOf(at))))
	must.Succeed(t, chromedp.Do(ctx, chromedp.Navigate(at)))
	png := must.Get(chromedp.Run(ctx, chromedp.FullScreenshot(100)))(t)
	must.Succeed(t, os.WriteFile(file, png, 0o600))
}
