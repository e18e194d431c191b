//! Slots, turns and what providers say about waiting. The clock stands still but for those who wait for it.

use super::*;

/// A request for `m` that has nowhere else to go.
async fn enter(limiter: &Limiter, pid: u64, wait: Duration) -> Result<Slot, Busy> {
    limiter.enter(SlotRequest { pid, model: "m", wait, has_fallback: false }).await
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (hyper::header::HeaderName::from_static(name), value.parse().unwrap())).collect()
}

#[test]
fn what_providers_say_about_waiting_is_understood() {
    let now: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    for (status, said, wait) in [
        (429, vec![("retry-after", "7")], Some(7_000)),
        (429, vec![("retry-after", "0.5")], Some(500)),
        (529, vec![("retry-after-ms", "120")], Some(120)),
        (429, vec![("retry-after", "Thu, 01 Jan 2026 00:00:09 GMT")], Some(9_000)),
        (200, vec![("retry-after", "7")], None),
        (429, vec![], None),
        (429, vec![("retry-after", "soon")], None),
        (429, vec![("retry-after", "-3")], None),
        (
            200,
            vec![("anthropic-ratelimit-requests-remaining", "0"), ("anthropic-ratelimit-requests-reset", "2026-01-01T00:00:30Z")],
            Some(30_000),
        ),
        (200, vec![("anthropic-ratelimit-requests-remaining", "3"), ("anthropic-ratelimit-requests-reset", "2026-01-01T00:00:30Z")], None),
        (200, vec![("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "6m0s")], Some(360_000)),
        (200, vec![("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "120ms")], Some(120)),
        (200, vec![("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "1h2m3.5s")], Some(3_723_500)),
        (200, vec![("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "1ms")], Some(1)),
        (200, vec![("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "17")], Some(17_000)),
        (200, vec![("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "a while")], None),
        (200, vec![("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1767225612000")], Some(12_000)),
        (429, vec![("retry-after-ms", "80.5")], Some(80)),
        (429, vec![("anthropic-ratelimit-unified-status", "rejected"), ("anthropic-ratelimit-unified-reset", "1767225660")], Some(60_000)),
        (200, vec![("anthropic-ratelimit-unified-status", "allowed"), ("anthropic-ratelimit-unified-reset", "1767225660")], None),
        // The longest of several.
        (429, vec![("retry-after", "2"), ("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "9s")], Some(9_000)),
    ] {
        assert_eq!(wait_of(status, &headers(&said), now).map(|wait| wait.as_millis()), wait, "{said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_busy_process_does_not_starve_another() {
    let limiter = Limiter::new(1, None);
    let first = enter(&limiter, 1, MINUTE).await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut all = tokio::task::JoinSet::new();
    for pid in [1, 1, 1, 2, 3, 3] {
        let (limiter, order) = (limiter.clone(), order.clone());
        all.spawn(async move {
            let _slot = enter(&limiter, pid, MINUTE).await.unwrap();
            order.lock().push(pid);
        });
        tokio::task::yield_now().await;
    }
    drop(first);
    while all.join_next().await.is_some() {}
    assert_eq!(*order.lock(), [2, 3, 1, 3, 1, 1]);
    assert_eq!(limiter.load(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_goes_away_takes_no_slot_with_it() {
    let limiter = Limiter::new(1, Some(3));
    let held = enter(&limiter, 1, MINUTE).await.unwrap();
    assert_eq!(enter(&limiter, 2, Duration::from_secs(1)).await.unwrap_err(), Busy { retry_after: None });
    let gone = tokio::spawn({
        let limiter = limiter.clone();
        async move { enter(&limiter, 2, MINUTE).await }
    });
    tokio::task::yield_now().await;
    gone.abort();
    assert!(gone.await.is_err());
    drop(held);
    assert_eq!(limiter.load(), (0, 0));
    // Two of the minute's three are left: who went away used none.
    drop(enter(&limiter, 1, Duration::from_secs(1)).await.unwrap());
    drop(enter(&limiter, 1, Duration::from_secs(1)).await.unwrap());
    assert!(enter(&limiter, 1, Duration::from_secs(1)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_the_provider_is_waited_out_or_told() {
    let limiter = Limiter::new(4, None);
    limiter.heed("m", 429, &headers(&[("retry-after", "30")]));
    let busy = enter(&limiter, 1, Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(busy.retry_after, Some(Duration::from_secs(30)));
    let start = Instant::now();
    let timed = async |pid| {
        let slot = enter(&limiter, pid, MINUTE).await.unwrap();
        (start.elapsed(), slot)
    };
    let (first, second) = tokio::join!(timed(1), timed(2));
    for (waited, _) in [&first, &second] {
        assert!(*waited >= Duration::from_secs(30) && *waited < Duration::from_secs(31), "{waited:?}");
    }
    drop((first, second));
    // Longer is longer, and a shorter one said later does not open it early.
    limiter.heed("m", 529, &headers(&[("retry-after", "20")]));
    limiter.heed("m", 429, &headers(&[("retry-after", "5")]));
    let start = Instant::now();
    drop(enter(&limiter, 1, MINUTE).await.unwrap());
    assert!(start.elapsed() >= Duration::from_secs(20), "{:?}", start.elapsed());
    assert_eq!(limiter.load(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_minute_s_starts_are_spread_over_the_minutes() {
    let limiter = Limiter::new(9, Some(2));
    let start = Instant::now();
    for (nth, earliest) in [0, 0, 60, 60, 120].into_iter().enumerate() {
        drop(enter(&limiter, nth as u64, MINUTE * 5).await.unwrap());
        assert!(start.elapsed() >= Duration::from_secs(earliest), "{nth}: {:?}", start.elapsed());
    }
    assert!(start.elapsed() < Duration::from_secs(121), "{:?}", start.elapsed());
}

/// One process has a hundred in line and every slot; another comes with one.
#[tokio::test(start_paused = true)]
async fn the_next_slot_is_for_whoever_has_fewest() {
    let limiter = Limiter::new(4, None);
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut all = tokio::task::JoinSet::new();
    let mut come = |pid: u64, seconds: u64| {
        let (limiter, order) = (limiter.clone(), order.clone());
        all.spawn(async move {
            let _slot = enter(&limiter, pid, MINUTE * 60).await.unwrap();
            order.lock().push(pid);
            tokio::time::sleep(Duration::from_secs(seconds)).await;
        });
    };
    (0..100).for_each(|nth| come(1, 10 + nth));
    tokio::task::yield_now().await;
    // Long ones of its own: with two on their way it still has fewer than the greedy one.
    (0..3).for_each(|_| come(9, 1_000));
    while all.join_next().await.is_some() {}
    let order = order.lock().clone();
    let place = |nth: usize| order.iter().enumerate().filter(|(_, pid)| **pid == 9).nth(nth).map(|(at, _)| at);
    assert_eq!((place(0), place(1)), (Some(4), Some(5)), "{order:?}");
    assert_eq!((order.len(), limiter.load()), (103, (0, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_limit_holds_for_the_model_it_was_told_of() {
    let limiter = Limiter::new(4, None);
    limiter.heed("dear", 429, &headers(&[("retry-after", "30")]));
    let start = Instant::now();
    let to = |model| SlotRequest { pid: 1, model, wait: MINUTE, has_fallback: false };
    let (dear, cheap) = tokio::join!(async { (limiter.enter(to("dear")).await, start.elapsed()) }, async {
        (limiter.enter(to("cheap")).await, start.elapsed())
    });
    assert!(cheap.0.is_ok() && cheap.1.is_zero(), "{:?}", cheap.1);
    assert!(dear.0.is_ok() && dear.1 >= Duration::from_secs(30), "{:?}", dear.1);
}

#[tokio::test(start_paused = true)]
async fn a_request_with_a_fallback_does_not_wait_for_a_reset() {
    let limiter = Limiter::new(1, None);
    let to = |has_fallback| SlotRequest { pid: 2, model: "m", wait: MINUTE, has_fallback };
    let held = enter(&limiter, 1, MINUTE).await.unwrap();
    let start = Instant::now();
    // In line for a slot when the provider closes: one goes elsewhere at that moment, the other waits it out.
    let told = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        limiter.heed("m", 429, &headers(&[("retry-after", "30")]));
        drop(held);
    };
    let (gone, stays, ()) = tokio::join!(
        async { (limiter.enter(to(true)).await.map(drop), start.elapsed()) },
        async { (limiter.enter(to(false)).await.map(drop), start.elapsed()) },
        told
    );
    assert_eq!(gone, (Err(Busy { retry_after: Some(Duration::from_secs(30)) }), Duration::from_secs(1)));
    assert!(stays.0.is_ok() && stays.1 >= Duration::from_secs(31), "{stays:?}");
    // And whoever comes to a closed one goes on at once.
    limiter.heed("m", 429, &headers(&[("retry-after", "30")]));
    assert_eq!(limiter.enter(to(true)).await.unwrap_err().retry_after, Some(Duration::from_secs(30)));
    assert_eq!(limiter.load(), (0, 0));
}

#[test]
fn of_two_limits_the_less_holds() {
    let limiter = Limiter::new(4, None);
    limiter.narrow(9, Some(7));
    limiter.narrow(3, Some(8));
    assert_eq!(limiter.limits(), (3, Some(7)));
}
