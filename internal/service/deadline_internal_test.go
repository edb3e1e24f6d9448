// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestDeadline(t *testing.T) {
	type key struct{}
	begin := func(parent context.Context) *deadline {
		return &deadline{Context: parent, at: time.Now().Add(time.Minute)}
	}
	synctest.Test(t, func(t *testing.T) {
		parent := context.WithValue(t.Context(), key{}, "value")
		waited, asked := begin(parent), begin(parent)
		child, cancel := context.WithCancel(waited)
		defer cancel()
		if waited.Err() != nil || asked.Err() != nil || child.Value(key{}) != "value" || asked.Value(key{}) != "value" {
			t.Error("it has ended, or lost a value")
		}
		start := time.Now()
		<-child.Done()
		if took := time.Since(start); took != time.Minute || !errors.Is(child.Err(), context.DeadlineExceeded) || !errors.Is(asked.Err(), context.DeadlineExceeded) {
			t.Errorf("after %s: %v, and %v for who only asks", took, child.Err(), asked.Err())
		}

		early, cancelEarly := context.WithTimeout(parent, time.Second)
		defer cancelEarly()
		d := begin(early)
		if at, ok := d.Deadline(); !ok || time.Until(at) != time.Second {
			t.Errorf("the deadline is %s, %t", at, ok)
		}
		<-d.Done()

		ended := begin(parent)
		if ended.end(); !errors.Is(ended.Err(), context.Canceled) {
			t.Errorf("ended: %v", ended.Err())
		}
		select {
		case <-ended.Done():
		default:
			t.Error("who waits for one that has ended waits")
		}
		both := begin(parent)
		_ = both.Done()
		if both.end(); !errors.Is(both.Err(), context.Canceled) {
			t.Errorf("ended while somebody waits: %v", both.Err())
		}
	})
}
