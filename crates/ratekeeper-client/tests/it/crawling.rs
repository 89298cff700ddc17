//! The example does what it says.

#[allow(dead_code, reason = "its main is for people")]
#[path = "../../examples/crawler.rs"]
mod crawler;

/// Real time passes: four seconds, since forty pages at ten a second take so long on a real socket.
#[tokio::test]
async fn the_crawler_reads_every_page_and_is_never_refused() {
    let site = crawler::site().await.expect("it listens");
    let crawl = crawler::crawl(&site).await.expect("it ends");
    assert_eq!((crawl.pages, crawl.sends, crawl.refused), (40, 40, 0));
    assert!(crawl.waits > 0, "it was told to wait");
    assert!(crawl.took.as_secs() >= 3 && crawl.took.as_secs() < 30, "{:?}", crawl.took);
}
